// SPDX-License-Identifier: Apache-2.0
// Modules of the process by their digest: each is loaded once, however many programs use it.
#ifndef TENSORD_RUNTIME_BASE_REGISTRY_H_
#define TENSORD_RUNTIME_BASE_REGISTRY_H_

#include <pthread.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace tensord::runtime {

template <typename Module>
class Registry {
 public:
  // Leaked: programs may be released while the process ends. A forked child finds the lock free,
  // whatever the other threads of its parent did.
  static Registry& Get() {
    static Registry* registry = [] {
      auto* made = new Registry;
      pthread_atfork([] { Get().mutex_.lock(); }, [] { Get().mutex_.unlock(); },
                     [] { Get().mutex_.unlock(); });
      return made;
    }();
    return *registry;
  }

  // Null when no program holds it.
  std::shared_ptr<Module> Find(const std::string& sha256) {
    std::lock_guard lock(mutex_);
    const auto it = modules_.find(sha256);
    return it == modules_.end() ? nullptr : it->second.lock();
  }

  // `module`, or the one that another thread was first to add.
  std::shared_ptr<Module> Add(const std::string& sha256, std::shared_ptr<Module> module) {
    std::lock_guard lock(mutex_);
    std::weak_ptr<Module>& slot = modules_[sha256];
    if (auto first = slot.lock()) {
      module.swap(first);
      return module;
    }
    slot = module;
    std::erase_if(modules_, [](const auto& entry) { return entry.second.expired(); });
    return module;
  }

 private:
  // Held for a look-up or an insertion only, never while a file is read or loaded.
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<Module>> modules_;
};

}  // namespace tensord::runtime

#endif  // TENSORD_RUNTIME_BASE_REGISTRY_H_
