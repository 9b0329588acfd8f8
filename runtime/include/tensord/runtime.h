// SPDX-License-Identifier: Apache-2.0
// The C interface of libtensord_runtime: load a compiled program, run it in the job.
//
// Every function may be called from several threads at once. Functions that can fail return 0 on
// success and another number on failure; tensord_last_error() then says why, for this thread.
// Nothing here touches Python; a caller that holds the GIL should release it around
// tensord_program_run. Tensors are torch's own handles (AtenTensorHandle of the stable C shim, an
// at::Tensor*).
#ifndef TENSORD_RUNTIME_H_
#define TENSORD_RUNTIME_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TENSORD_RUNTIME_ABI 9

typedef struct TensordProgram TensordProgram;
typedef void* TensordTensor;  // AtenTensorHandle

typedef enum TensordError {
  TENSORD_OK = 0,
  TENSORD_INVALID = 1,        // the caller's fault: wrong number of inputs, wrong dtype or shape
  TENSORD_CORRUPT = 2,        // an artifact or blob that is not what it says: compile again
  TENSORD_UNAVAILABLE = 3,    // a blob is missing, torch's symbols are not there
  TENSORD_OPERATOR = 4,       // an operator of torch raised, with torch's message; a kernel failed
  TENSORD_OUT_OF_MEMORY = 5,  // the device has no memory left: torch.OutOfMemoryError in Python
  TENSORD_INDEX = 6,          // an index in a tensor is out of range: IndexError in Python
} TensordError;

typedef enum TensordKind {
  TENSORD_NONE = 0,
  TENSORD_TENSOR = 1,
  TENSORD_INT = 2,
  TENSORD_DOUBLE = 3,
  TENSORD_BOOL = 4,
  TENSORD_STRING = 5,
  TENSORD_DTYPE = 6,          // integer: torch's ScalarType number
  TENSORD_DEVICE = 7,         // integer: torch's DeviceType number; size: the index, of CUDA
  TENSORD_MEMORY_FORMAT = 8,  // integer: torch's MemoryFormat number
  TENSORD_LAYOUT = 9,         // integer: torch's Layout number
  TENSORD_LIST = 10,
} TensordKind;

typedef struct TensordValue {
  TensordKind kind;
  union {
    TensordTensor tensor;
    int64_t integer;  // also BOOL, DTYPE, DEVICE, MEMORY_FORMAT, LAYOUT
    double real;
    const char* text;
    const struct TensordValue* items;
  };
  // Of a list or text; a device's index; TENSORD_GIVEN or TENSORD_DONATED for an input tensor
  // whose reference is the program's to drop.
  size_t size;
} TensordValue;
#define TENSORD_GIVEN 1
// The same, of memory that torch allocated and that no other tensor has: the program may overwrite
// it.
#define TENSORD_DONATED 2

// A call of an operator that torch's stable C shim cannot express (one with a Scalar argument,
// say). `args` follow the operator's schema. The callee stores `num_results` new references (NULL
// for an undefined tensor) and returns 0, or a message through tensord_set_error and another number
// (TENSORD_OUT_OF_MEMORY where that is what the operator raised).
typedef struct TensordOperatorCall {
  const char* op;        // "aten::add"
  const char* overload;  // "Tensor" or ""
  const TensordValue* args;
  size_t num_args;
  TensordTensor* results;
  size_t num_results;
  // torch's stable interface failed at it; where a mode of torch's calls operators from Python, an
  // exception was set, which the runtime has cleared if it finds Python's functions.
  int32_t again;
} TensordOperatorCall;
typedef int (*TensordOperatorFn)(void* context, const TensordOperatorCall* call);

// Makes an uninitialised tensor of torch's ScalarType `dtype` on the thread's current CUDA device
// and stream, sizes and strides in elements. NULL when that failed.
typedef TensordTensor (*TensordEmptyFn)(int64_t ndim, const int64_t* sizes, const int64_t* strides,
                                        int32_t dtype);

uint32_t tensord_runtime_abi(void);
const char* tensord_runtime_version(void);
const char* tensord_last_error(void);
void tensord_set_error(const char* message);

// Installed once by the bridge; the bridge takes the GIL itself if it needs it.
void tensord_set_operator_caller(TensordOperatorFn fn, void* context);
// Optional: a shorter way to torch's allocator than its stable interface, which goes through the
// dispatcher. Where it fails that interface is asked, and says why. NULL: no longer.
void tensord_set_cuda_empty(TensordEmptyFn fn);

// `artifact` is a serialised tensord.v1.Artifact. Blobs are read from `blob_folder`
// (<folder>/ab/<sha256>), checked for owner and digest, and loaded once per process, however many
// programs use them.
int tensord_program_load(const void* artifact, size_t size, const char* blob_folder,
                         TensordProgram** program);
void tensord_program_release(TensordProgram* program);
size_t tensord_program_num_inputs(const TensordProgram* program);
size_t tensord_program_num_outputs(const TensordProgram* program);

// The inputs that the plan can do without before its end: to give other ones saves no memory.
size_t tensord_program_released_inputs(const TensordProgram* program, const uint32_t** inputs);

// Runs the plan. `inputs` are TENSOR or INT. Tensors are borrowed, but for those marked as given:
// of them the program drops those that it needs no more as soon as it can, and sets them to NULL;
// what is not NULL in the end is still the caller's, on success and on failure. Nothing is dropped
// before the first step. `outputs` receive new references (TENSOR),
// INT or NONE; on failure none is set. A CUDA program runs on the device of its inputs, which must
// be one and the same (without any: the current one), and on torch's current stream of that device;
// it returns when all is queued. TENSORD_OPERATOR, TENSORD_OUT_OF_MEMORY and TENSORD_INDEX may
// come after a step has run, every other code comes before the first.
int tensord_program_run(TensordProgram* program, TensordValue* inputs, size_t num_inputs,
                        TensordValue* outputs, size_t num_outputs);

// The workspace that a call of a CUDA program with these inputs takes, in bytes: `whole`, of which
// the first `least` are there from the call's begin to its end, the others in blocks of their own
// for a part of it. 0 for a program on the CPU. Fails as the call would.
int tensord_program_workspace(const TensordProgram* program, const TensordValue* inputs,
                              size_t num_inputs, int64_t* whole, int64_t* least);
// This thread's next call of a CUDA program takes its workspace at the start of `tensor` (uint8, of
// `bytes`, on the program's device), which outlives all use of it, if it is large enough: for all
// of it, or for what is there all the time. CUDA graphs that are never replayed at once share one
// so. NULL: no longer.
void tensord_lend_workspace(TensordTensor tensor, int64_t bytes);

// What a profile knows a program by: another number for each that this process has loaded.
uint64_t tensord_program_number(const TensordProgram* program);

typedef enum TensordStepKind {
  TENSORD_STEP_LAUNCH = 1,
  TENSORD_STEP_CALL = 2,
  TENSORD_STEP_ZERO_FILL = 3,
  TENSORD_STEP_MEMORY = 4,  // an allocation, or the end of one; of programs on the CPU alone
} TensordStepKind;

typedef struct TensordStepTime {
  uint32_t kind;    // TensordStepKind
  uint32_t number;  // of its kind among the artifact's steps, from 0; 0 for MEMORY
  uint64_t begin;   // nanoseconds from the run's begin; on CUDA from the begin of its first step
  uint64_t nanoseconds;  // that it took
} TensordStepTime;

// One run of a program. Of calls that ran along with an earlier one (a product with what follows
// it) that one's time is of all.
typedef struct TensordRunTimes {
  uint64_t program;        // tensord_program_number
  uint64_t begin, end;     // of tensord_program_run, by CLOCK_MONOTONIC in nanoseconds
  const int64_t* symbols;  // the values of the artifact's symbols
  size_t num_symbols;
  const TensordStepTime* steps;  // in the order in which they ran
  size_t num_steps;
  int32_t device;  // of CUDA: its index, and the steps' times are the device's; -1: the host's
} TensordRunTimes;

// From here on every run in this process is timed by step, until tensord_profile_end: on the CPU by
// the host's clock, on CUDA by events on the run's stream, for which nothing waits. A run within
// another one is a part of that one's step; one that is captured as a CUDA graph is not timed.
// TENSORD_INVALID: this process is being profiled already.
int tensord_profile_begin(void);
// The runs that have returned since the begin, or since they were taken last; waits until devices
// have done them. They are valid until the next call of this, or of tensord_profile_end. `dropped`:
// how many runs of that time are not among them, for want of room or because there was no clock or
// it failed; those that were captured as a CUDA graph are none.
// TENSORD_INVALID: this process is not being profiled.
int tensord_profile_take(const TensordRunTimes** runs, size_t* count, uint64_t* dropped);
// Steps of the runs that wait to be taken. 2^18 have room, and what runs beyond them is dropped:
// who profiles for long takes them in between.
size_t tensord_profile_kept(void);
// Does nothing where this process is not being profiled.
void tensord_profile_end(void);

// The graph's random operators, for a graph that runs in eager: `count` numbers of stream `stream`
// under `seed`, equal to those of generated kernels. Uniform in [0, 1); normal with mean 0,
// variance 1.
void tensord_philox_uniform(uint64_t seed, uint32_t stream, size_t count, float* out);
void tensord_philox_normal(uint64_t seed, uint32_t stream, size_t count, float* out);

#ifdef __cplusplus
}
#endif

#endif  // TENSORD_RUNTIME_H_
