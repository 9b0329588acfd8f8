// SPDX-License-Identifier: Apache-2.0
#include "server/fleet/connection.h"

#include <absl/strings/str_cat.h>
#include <absl/time/clock.h>
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace tensord::fleet {
namespace {

absl::Status SocketTrouble(const char* what, int error = errno) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(error)));
}

// Also of who always has a byte ready.
absl::Status InTime(absl::Time deadline) {
  return absl::Now() < deadline ? absl::OkStatus()
                                : absl::DeadlineExceededError("it does not answer in time");
}

absl::Status Await(int fd, short events, absl::Time deadline) {
  while (true) {
    TENSORD_RETURN_IF_ERROR(InTime(deadline));
    // Rounded up, so that the last millisecond is not spent polling.
    const absl::Duration left = std::min(deadline - absl::Now(), absl::Minutes(1));
    const int64_t wait = absl::ToInt64Milliseconds(left) + 1;
    pollfd one{fd, events, 0};
    const int ready = poll(&one, 1, static_cast<int>(wait));
    if (ready > 0) return absl::OkStatus();
    if (ready < 0 && errno != EINTR) return SocketTrouble("poll");
  }
}

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  int fd() const { return fd_; }

 private:
  int fd_;
};

absl::StatusOr<Socket> ConnectTo(int family, const sockaddr* address, socklen_t size,
                                 absl::Time deadline) {
  Socket made(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (made.fd() < 0) return SocketTrouble("socket");
  if (connect(made.fd(), address, size) != 0) {
    if (errno != EINPROGRESS) return SocketTrouble("cannot connect");
    TENSORD_RETURN_IF_ERROR(Await(made.fd(), POLLOUT, deadline));
    int error = 0;
    socklen_t length = sizeof error;
    getsockopt(made.fd(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) return SocketTrouble("cannot connect", error);
  }
  return made;
}

absl::StatusOr<Socket> ConnectUnix(const std::string& path, absl::Time deadline) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return absl::UnavailableError("the socket's path is too long");
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return ConnectTo(AF_UNIX, reinterpret_cast<const sockaddr*>(&address), sizeof address, deadline);
}

// A connection that nobody uses, and that something between has forgotten, is found to be lost.
void KeepAlive(int fd) {
  const int on = 1, idle_s = 60, between_s = 10, tries = 3;
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between_s, sizeof between_s);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &tries, sizeof tries);
}

// Each address of the host until one answers; each has its share of the time.
absl::StatusOr<Socket> ConnectTcp(const Endpoint& endpoint, absl::Time deadline) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  const int failed = getaddrinfo(endpoint.host.c_str(), endpoint.port.c_str(), &hints, &found);
  if (failed != 0) {
    return absl::UnavailableError(absl::StrCat(endpoint.host, ": ", gai_strerror(failed)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> all(found, &freeaddrinfo);
  absl::StatusOr<Socket> made = absl::UnavailableError("the host has no address");
  int64_t left = 0;
  for (const addrinfo* one = all.get(); one != nullptr; one = one->ai_next) ++left;
  for (const addrinfo* one = all.get(); one != nullptr; one = one->ai_next, --left) {
    const absl::Time now = absl::Now();
    made = ConnectTo(one->ai_family, one->ai_addr, one->ai_addrlen, now + (deadline - now) / left);
    if (!made.ok()) continue;
    KeepAlive(made->fd());
    const int on = 1;
    setsockopt(made->fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    break;
  }
  return made;
}

// Those that OpenSSL looks for where its build says, and where systems have them: a container, or a
// host of another distribution than the library's.
bool TrustTheSystems(SSL_CTX* context) {
  if (SSL_CTX_set_default_verify_paths(context) != 1) return false;
  if (std::getenv("SSL_CERT_FILE") != nullptr) return true;  // those, and no others
  for (const char* file : {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                           "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"}) {
    if (access(file, R_OK) == 0) SSL_CTX_load_verify_file(context, file);
  }
  ERR_clear_error();
  return true;
}

class PlainConnection : public Connection {
 public:
  explicit PlainConnection(Socket socket) : socket_(std::move(socket)) {}

 private:
  int fd() const override { return socket_.fd(); }
  Step TryWrite(const char* data, size_t size) override {
    return Outcome(send(fd(), data, size, MSG_NOSIGNAL), POLLOUT);
  }
  Step TryRead(char* data, size_t size) override {
    return Outcome(recv(fd(), data, size, 0), POLLIN);
  }
  static Step Outcome(ssize_t done, short wait) {
    if (done > 0) return {static_cast<size_t>(done)};
    if (done == 0) return {0, 0, true};
    if (errno == EAGAIN || errno == EWOULDBLOCK) return {0, wait};
    if (errno == EINTR) return {0, 0};
    return {0, 0, false, SocketTrouble("the connection is lost")};
  }

  const Socket socket_;
};

class TlsConnection : public Connection {
 public:
  static absl::StatusOr<std::unique_ptr<Connection>> Open(Socket socket, const Endpoint& endpoint,
                                                          absl::Time deadline) {
    auto made = std::unique_ptr<TlsConnection>(new TlsConnection(std::move(socket)));
    TENSORD_RETURN_IF_ERROR(made->Shake(endpoint, deadline));
    return made;
  }

 private:
  explicit TlsConnection(Socket socket)
      : socket_(std::move(socket)),
        context_(SSL_CTX_new(TLS_client_method()), &SSL_CTX_free),
        ssl_(SSL_new(context_.get()), &SSL_free) {}

  absl::Status Shake(const Endpoint& endpoint, absl::Time deadline) {
    SSL_CTX* const context = context_.get();
    const bool trusts = endpoint.ca.empty()
                            ? TrustTheSystems(context)
                            : SSL_CTX_load_verify_file(context, endpoint.ca.c_str()) == 1;
    if (!trusts) return Trouble("cannot read fleet_ca " + endpoint.ca);
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    ssl_.reset(SSL_new(context));
    SSL* const ssl = ssl_.get();
    SSL_set_verify(ssl, SSL_VERIFY_PEER, nullptr);
    X509_VERIFY_PARAM* const verify = SSL_get0_param(ssl);
    // The certificate is for a number of the network, or for a name.
    if (X509_VERIFY_PARAM_set1_ip_asc(verify, endpoint.host.c_str()) != 1) {
      if (SSL_set1_host(ssl, endpoint.host.c_str()) != 1) return Trouble("the host's name");
      SSL_set_tlsext_host_name(ssl, endpoint.host.c_str());
    }
    SSL_set_fd(ssl, fd());
    while (true) {
      ERR_clear_error();
      const int done = SSL_connect(ssl);
      if (done == 1) return absl::OkStatus();
      const Step step = Outcome(done);
      if (!step.status.ok()) return step.status;
      if (step.closed) return absl::UnavailableError("the server closed before TLS was there");
      TENSORD_RETURN_IF_ERROR(Await(fd(), step.wait, deadline));
    }
  }

  int fd() const override { return socket_.fd(); }
  Step TryWrite(const char* data, size_t size) override {
    ERR_clear_error();
    return Outcome(SSL_write(ssl_.get(), data, static_cast<int>(std::min(size, kMost))));
  }
  Step TryRead(char* data, size_t size) override {
    ERR_clear_error();
    return Outcome(SSL_read(ssl_.get(), data, static_cast<int>(std::min(size, kMost))));
  }
  Step Outcome(int done) const {
    if (done > 0) return {static_cast<size_t>(done)};
    switch (SSL_get_error(ssl_.get(), done)) {
      case SSL_ERROR_WANT_READ:
        return {0, POLLIN};
      case SSL_ERROR_WANT_WRITE:
        return {0, POLLOUT};
      case SSL_ERROR_ZERO_RETURN:
        return {0, 0, true};
      default:
        return {0, 0, false, Trouble("TLS")};
    }
  }
  absl::Status Trouble(const std::string& what) const {
    const unsigned long error = ERR_get_error();
    const long verdict = SSL_get_verify_result(ssl_.get());
    const char* why = verdict != X509_V_OK ? X509_verify_cert_error_string(verdict)
                      : error != 0         ? ERR_reason_error_string(error)
                                           : "the connection is lost";
    return absl::UnavailableError(absl::StrCat(what, ": ", why == nullptr ? "no reason" : why));
  }

  static constexpr size_t kMost = 1 << 20;
  const Socket socket_;
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_;
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl_;
};

}  // namespace

std::string Endpoint::ToString() const {
  return path.empty() ? absl::StrCat(tls ? "rediss://" : "redis://", host, ":", port)
                      : absl::StrCat("redis+unix://", path);
}

absl::StatusOr<std::unique_ptr<Connection>> Connection::Open(const Endpoint& endpoint,
                                                             absl::Time deadline) {
  TENSORD_ASSIGN_OR_RETURN(Socket socket, endpoint.path.empty()
                                              ? ConnectTcp(endpoint, deadline)
                                              : ConnectUnix(endpoint.path, deadline));
  if (endpoint.tls) return TlsConnection::Open(std::move(socket), endpoint, deadline);
  return std::make_unique<PlainConnection>(std::move(socket));
}

absl::Status Connection::Write(const std::string& bytes, absl::Time deadline) {
  for (size_t at = 0; at < bytes.size();) {
    TENSORD_RETURN_IF_ERROR(InTime(deadline));
    const Step step = TryWrite(bytes.data() + at, bytes.size() - at);
    if (!step.status.ok()) return step.status;
    if (step.closed) return absl::UnavailableError("the server has closed the connection");
    at += step.done;
    if (step.wait != 0) TENSORD_RETURN_IF_ERROR(Await(fd(), step.wait, deadline));
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> Connection::Read(char* buffer, size_t size, absl::Time deadline) {
  while (true) {
    TENSORD_RETURN_IF_ERROR(InTime(deadline));
    const Step step = TryRead(buffer, size);
    if (!step.status.ok()) return step.status;
    if (step.closed || step.done > 0) return step.done;
    if (step.wait != 0) TENSORD_RETURN_IF_ERROR(Await(fd(), step.wait, deadline));
  }
}

}  // namespace tensord::fleet
