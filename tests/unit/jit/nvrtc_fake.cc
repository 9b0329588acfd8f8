// SPDX-License-Identifier: Apache-2.0
// An NVRTC of 2022: has every function that the JIT asks for, and says that it is 11.8.
extern "C" {
int nvrtcVersion(int* major, int* minor) {
  *major = 11;
  *minor = 8;
  return 0;
}
#define TENSORD_FAKE(name) \
  int nvrtc##name() { return 3; }
TENSORD_FAKE(GetErrorString)
TENSORD_FAKE(GetNumSupportedArchs)
TENSORD_FAKE(GetSupportedArchs)
TENSORD_FAKE(CreateProgram)
TENSORD_FAKE(DestroyProgram)
TENSORD_FAKE(CompileProgram)
TENSORD_FAKE(GetProgramLogSize)
TENSORD_FAKE(GetProgramLog)
TENSORD_FAKE(GetCUBINSize)
TENSORD_FAKE(GetCUBIN)
TENSORD_FAKE(GetPTXSize)
TENSORD_FAKE(GetPTX)
}
