// SPDX-License-Identifier: Apache-2.0
// What spdlog is compiled to, once: with its headers alone each reader takes four seconds more.
// Debian's library will not do: it brings threads of its own for logs, and with them needs a
// libstdc++ that is newer than RHEL 9's (deploy/bundle.sh).
#include <spdlog/common-inl.h>
#include <spdlog/details/backtracer-inl.h>
#include <spdlog/details/file_helper-inl.h>
#include <spdlog/details/log_msg-inl.h>
#include <spdlog/details/log_msg_buffer-inl.h>
#include <spdlog/details/null_mutex.h>
#include <spdlog/details/os-inl.h>
#include <spdlog/details/periodic_worker-inl.h>
#include <spdlog/details/registry-inl.h>
#include <spdlog/logger-inl.h>
#include <spdlog/pattern_formatter-inl.h>
#include <spdlog/sinks/ansicolor_sink-inl.h>
#include <spdlog/sinks/base_sink-inl.h>
#include <spdlog/sinks/rotating_file_sink-inl.h>
#include <spdlog/sinks/sink-inl.h>
#include <spdlog/sinks/stdout_sinks-inl.h>
#include <spdlog/spdlog-inl.h>

#include <memory>
#include <mutex>
#include <string>

// What the daemon's log uses of spdlog's templates, and its default logger, which is made first.
namespace spdlog {

template class sinks::base_sink<std::mutex>;
template class sinks::rotating_file_sink<std::mutex>;
template class sinks::stdout_sink_base<details::console_mutex>;
template class sinks::stderr_sink<details::console_mutex>;
template class sinks::ansicolor_sink<details::console_mutex>;
template class sinks::ansicolor_stdout_sink<details::console_mutex>;
template std::shared_ptr<logger> stderr_logger_mt<synchronous_factory>(const std::string&);

}  // namespace spdlog
