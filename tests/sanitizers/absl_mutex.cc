// SPDX-License-Identifier: Apache-2.0
// Tells ThreadSanitizer what absl::Mutex promises. Debian's Abseil is built without the sanitizer,
// which therefore sees no order between two threads that hold the same lock one after the other,
// and takes everything that a lock protects for a race. Each function here stands before the
// library's own, which it calls. Linked into every test of the preset tsan.
#include <absl/synchronization/mutex.h>
#include <absl/synchronization/notification.h>
#include <absl/time/clock.h>
#include <dlfcn.h>
#include <sanitizer/tsan_interface.h>

#include <cstdlib>
#include <string>

extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
}

#define TENSORD_TEXT_OF(macro) #macro
#define TENSORD_TEXT(macro) TENSORD_TEXT_OF(macro)

namespace {

// The library's function, by its mangled name without the namespaces: "5Mutex4LockEv".
void* Find(const char* name) {
#if ABSL_OPTION_USE_INLINE_NAMESPACE
  const std::string inner = TENSORD_TEXT(ABSL_OPTION_INLINE_NAMESPACE_NAME);
  const std::string prefix = "4absl" + std::to_string(inner.size()) + inner;
#else
  const std::string prefix = "4absl";
#endif
  const std::string text = name;
  const bool is_const = text.starts_with("K");
  void* found = dlsym(RTLD_NEXT,
                      ("_ZN" + (is_const ? "K" + prefix + text.substr(1) : prefix + text)).c_str());
  if (found == nullptr) std::abort();  // another Abseil: its names are others
  return found;
}

#define TENSORD_REAL(result, name, ...)          \
  reinterpret_cast<result (*)(__VA_ARGS__)>([] { \
    static void* const found = Find(name);       \
    return found;                                \
  }())

// A lock's holder may evaluate the conditions of those who wait, in Unlock: what these read, they
// read under the lock, though the order that it gives has been told already.
class IgnoreReads {
 public:
  IgnoreReads() { AnnotateIgnoreReadsBegin(__FILE__, __LINE__); }
  ~IgnoreReads() { AnnotateIgnoreReadsEnd(__FILE__, __LINE__); }
};

}  // namespace

namespace absl {
ABSL_NAMESPACE_BEGIN

void Mutex::Lock() {
  TENSORD_REAL(void, "5Mutex4LockEv", Mutex*)(this);
  __tsan_acquire(this);
}

bool Mutex::TryLock() {
  const bool locked = TENSORD_REAL(bool, "5Mutex7TryLockEv", Mutex*)(this);
  if (locked) __tsan_acquire(this);
  return locked;
}

void Mutex::Unlock() {
  __tsan_release(this);
  const IgnoreReads ignore;
  TENSORD_REAL(void, "5Mutex6UnlockEv", Mutex*)(this);
}

void Mutex::Await(const Condition& condition) {
  __tsan_release(this);
  {
    const IgnoreReads ignore;
    TENSORD_REAL(void, "5Mutex5AwaitERKNS0_9ConditionE", Mutex*, const Condition&)
    (this, condition);
  }
  __tsan_acquire(this);
}

bool Mutex::AwaitWithTimeout(const Condition& condition, Duration timeout) {
  return AwaitWithDeadline(condition, Now() + timeout);
}

bool Mutex::AwaitWithDeadline(const Condition& condition, Time deadline) {
  __tsan_release(this);
  bool met;
  {
    const IgnoreReads ignore;
    met = TENSORD_REAL(bool, "5Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE", Mutex*,
                       const Condition&, Time)(this, condition, deadline);
  }
  __tsan_acquire(this);
  return met;
}

void Notification::Notify() {
  __tsan_release(this);
  TENSORD_REAL(void, "12Notification6NotifyEv", Notification*)(this);
}

void Notification::WaitForNotification() const {
  TENSORD_REAL(void, "K12Notification19WaitForNotificationEv", const Notification*)(this);
  __tsan_acquire(const_cast<Notification*>(this));
}

bool Notification::WaitForNotificationWithTimeout(Duration timeout) const {
  const bool notified =
      TENSORD_REAL(bool, "K12Notification30WaitForNotificationWithTimeoutENS0_8DurationE",
                   const Notification*, Duration)(this, timeout);
  if (notified) __tsan_acquire(const_cast<Notification*>(this));
  return notified;
}

bool Notification::WaitForNotificationWithDeadline(Time deadline) const {
  const bool notified =
      TENSORD_REAL(bool, "K12Notification31WaitForNotificationWithDeadlineENS0_4TimeE",
                   const Notification*, Time)(this, deadline);
  if (notified) __tsan_acquire(const_cast<Notification*>(this));
  return notified;
}

ABSL_NAMESPACE_END
}  // namespace absl
