#define _GNU_SOURCE
#include "address.h"
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

int simp_close(int fd) { return close(fd) == 0 ? 0 : -errno; }

int simp_take_socket_error(int fd) {
  int code = 0;
  socklen_t size = sizeof code;
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &size) != 0) return -errno;
  return -code;
}

int simp_local_address(int fd, simp_address *out) {
  struct sockaddr_storage storage;
  socklen_t size = sizeof storage;
  if (getsockname(fd, (struct sockaddr *)&storage, &size) != 0) return -errno;
  return simp_from_sockaddr((struct sockaddr *)&storage, out) == 0 ? 0 : -EAFNOSUPPORT;
}

static int fail(int fd) {
  int code = errno;
  close(fd);
  return -code;
}

static int enable(int fd, int level, int option, int value) {
  return setsockopt(fd, level, option, &value, sizeof value);
}

int simp_tcp_listen(const simp_address *at, int reuse_port, int backlog) {
  struct sockaddr_storage storage;
  socklen_t size = simp_to_sockaddr(at, at->family, &storage);
  int fd = socket(storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -errno;
  // SO_REUSEADDR lets a restarted server bind while connections of the old one linger; on Linux it does not let
  // two listeners share a port.
  if (enable(fd, SOL_SOCKET, SO_REUSEADDR, 1) != 0) return fail(fd);
  if (reuse_port && enable(fd, SOL_SOCKET, SO_REUSEPORT, 1) != 0) return fail(fd);
  if (at->family == 6 && enable(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0) != 0) return fail(fd);
  if (bind(fd, (struct sockaddr *)&storage, size) != 0 || listen(fd, backlog) != 0) return fail(fd);
  return fd;
}

void simp_tcp_close_listener(int fd) {
  // Closing alone would leave the port with a copy that a child has of the descriptor until it executes its program.
  shutdown(fd, SHUT_RDWR);
  close(fd);
}

int simp_tcp_accept(int fd, simp_address *peer) {
  struct sockaddr_storage storage;
  socklen_t size = sizeof storage;
  int accepted = accept4(fd, (struct sockaddr *)&storage, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (accepted < 0) return -errno;
  if (simp_from_sockaddr((struct sockaddr *)&storage, peer) != 0) {
    close(accepted);
    return -ECONNABORTED;
  }
  // A failure here costs latency only.
  enable(accepted, IPPROTO_TCP, TCP_NODELAY, 1);
  return accepted;
}

int simp_tcp_connect(const simp_address *to) {
  struct sockaddr_storage storage;
  socklen_t size = simp_to_sockaddr(to, to->family, &storage);
  int fd = socket(storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -errno;
  enable(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  if (connect(fd, (struct sockaddr *)&storage, size) != 0 && errno != EINPROGRESS) return fail(fd);
  return fd;
}

int64_t simp_tcp_send(int fd, const uint8_t *bytes, size_t count) {
  ssize_t sent;
  do sent = send(fd, bytes, count, MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  return sent < 0 ? -errno : sent;
}

int64_t simp_tcp_receive(int fd, uint8_t *bytes, size_t room) {
  ssize_t got;
  do got = recv(fd, bytes, room, 0);
  while (got < 0 && errno == EINTR);
  return got < 0 ? -errno : got;
}

int simp_tcp_wake_from(int fd, int bytes) { return enable(fd, SOL_SOCKET, SO_RCVLOWAT, bytes) == 0 ? 0 : -errno; }

int simp_tcp_has_ended(int fd) {
  struct pollfd asked = {.fd = fd, .events = POLLRDHUP};
  return poll(&asked, 1, 0) > 0;
}

int simp_tcp_end_output(int fd) { return shutdown(fd, SHUT_WR) == 0 ? 0 : -errno; }
