// SPDX-License-Identifier: Apache-2.0
#include "server/ctl/terminal.h"

#include <absl/strings/str_cat.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <utility>

namespace tensord::server {
namespace {

constexpr char kEnter[] = "\033[?1049h\033[?25l";  // the other screen, without a cursor
constexpr char kLeave[] = "\033[?25h\033[?1049l";
constexpr int kEndingSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

// What a signal's handler may use: it becomes readable when the terminal is to be left.
int leave = -1;

void Leave(int) {
  const uint64_t one = 1;
  (void)!write(leave, &one, sizeof one);
}

void OnSignals(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  for (const int number : kEndingSignals) sigaction(number, &action, nullptr);
}

winsize Size() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return {24, 80, 0, 0};
  return size;
}

}  // namespace

Terminal::Terminal(std::function<void()> quit) : quit_(std::move(quit)) {
  leave = eventfd(0, EFD_CLOEXEC);
  OnSignals(Leave);
  keys_ = tcgetattr(STDIN_FILENO, &before_) == 0;
  if (keys_) {
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    raw.c_cc[VSUSP] = _POSIX_VDISABLE;  // nobody would take the screen back meanwhile
    tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  }
  std::fputs(kEnter, stdout);
  std::fflush(stdout);
  waiter_ = std::thread([this] { AwaitQuit(); });
}

Terminal::~Terminal() {
  closing_ = true;
  Leave(0);
  waiter_.join();
  std::fputs(kLeave, stdout);
  std::fflush(stdout);
  if (keys_) tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  OnSignals(SIG_DFL);
  close(std::exchange(leave, -1));
}

void Terminal::AwaitQuit() {
  pollfd waits[] = {{leave, POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
  while (true) {
    if (poll(waits, keys_ ? 2 : 1, -1) < 0) continue;  // a signal, which has written to `leave`
    char key = 0;
    if (waits[0].revents != 0) break;
    if (read(STDIN_FILENO, &key, 1) <= 0 || key == 'q' || key == 'Q') break;
  }
  if (!closing_) quit_();
}

size_t Terminal::width() const { return Size().ws_col; }

void Terminal::Draw(const std::vector<std::string>& lines) {
  const size_t height = std::min<size_t>(lines.size(), Size().ws_row);
  std::string text = "\033[H";
  for (size_t i = 0; i < height; ++i) {
    absl::StrAppend(&text, i == 0 ? "" : "\n", lines[i], "\033[K");
  }
  std::fputs((text + "\033[J").c_str(), stdout);
  std::fflush(stdout);
}

}  // namespace tensord::server
