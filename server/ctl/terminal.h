// SPDX-License-Identifier: Apache-2.0
// A terminal of its own while a command draws on it.
#ifndef TENSORD_SERVER_CTL_TERMINAL_H_
#define TENSORD_SERVER_CTL_TERMINAL_H_

#include <termios.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace tensord::server {

// Takes the whole screen until it is destroyed, which leaves everything as it was. There is one at
// a time. `quit` is called at most once, by a thread of its own, when the user types q or Ctrl-C,
// or the terminal goes away.
class Terminal {
 public:
  explicit Terminal(std::function<void()> quit);
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  size_t width() const;
  // What does not fit the height is left out.
  void Draw(const std::vector<std::string>& lines);

 private:
  void AwaitQuit();

  const std::function<void()> quit_;
  termios before_{};
  bool keys_ = false;  // standard input is a terminal
  std::atomic<bool> closing_{false};
  std::thread waiter_;
};

}  // namespace tensord::server

#endif  // TENSORD_SERVER_CTL_TERMINAL_H_
