#pragma once
// What Swift's importer cannot see of Linux and OpenSSL (macros, _GNU_SOURCE), one plain function each.
// Functions that can fail return the negated errno, read right after the call.

#include <stddef.h>
#include <stdint.h>

// Addresses. Mirrors PeerAddress: address as big-endian numbers, `family` 4 or 6.
typedef struct {
  uint64_t high;
  uint64_t low;
  uint32_t scope;
  uint16_t port;
  uint8_t family;
} simp_address;

/// Reads "127.0.0.1", "::1" or "fe80::1%eth0" without asking any name server. Returns 0 or -1.
int simp_address_parse(const char *text, simp_address *out);
/// Blocking getaddrinfo. Fills up to `room` addresses, returns their number or the (negative) EAI_ code.
int simp_resolve(const char *host, simp_address *out, int room);
/// Text for an EAI_ code.
const char *simp_resolve_error(int code);

// Descriptors in general.
int simp_close(int fd);
int simp_take_socket_error(int fd);
int simp_local_address(int fd, simp_address *out);

// TCP. All sockets are non-blocking and close-on-exec.
int simp_tcp_listen(const simp_address *at, int reuse_port, int backlog);
/// Stops listening, whoever else has a copy of the descriptor, and closes it.
void simp_tcp_close_listener(int fd);
int simp_tcp_accept(int fd, simp_address *peer);
/// Begins to connect: the descriptor becomes writable when that is decided.
int simp_tcp_connect(const simp_address *to);
/// Never raises SIGPIPE.
int64_t simp_tcp_send(int fd, const uint8_t *bytes, size_t count);
int64_t simp_tcp_receive(int fd, uint8_t *bytes, size_t room);
/// The socket is readable from so many bytes on, or when the peer ends; 1 as it was made.
int simp_tcp_wake_from(int fd, int bytes);
/// Whether the peer has ended its side, or the connection broke, whatever waits to be read.
int simp_tcp_has_ended(int fd);
int simp_tcp_end_output(int fd);

// UDP.
typedef struct {
  uint8_t *bytes;
  uint32_t count;
  uint32_t truncated;
  simp_address from;
} simp_datagram;

typedef struct {
  simp_address to;
  uint32_t offset;
  uint32_t count;
} simp_outgoing;

typedef struct simp_receive_batch simp_receive_batch;

enum { SIMP_BATCH = 64 };

int simp_udp_open(const simp_address *at, int reuse_port, int buffer_bytes, int *receive_buffer, int *send_buffer);
/// Steers the datagrams of this socket's SO_REUSEPORT group by payload byte `offset` modulo `sockets`.
int simp_udp_steer(int fd, unsigned offset, unsigned sockets);
/// Lets only datagrams of `shortest` to `longest` payload bytes in, whose first two bytes, masked, are `value`. The rest
/// is dropped by the kernel before it takes room in the socket's buffer, and so is all that comes from one of the `v4_count`
/// IPv4 addresses or `v6_count` first halves of IPv6 addresses, SIMP_REFUSED at most together. Numbers as they are read.
#define SIMP_REFUSED 32
int simp_udp_admit(int fd, unsigned shortest, unsigned longest, unsigned mask, unsigned value, const uint32_t *v4,
                   unsigned v4_count, const uint64_t *v6, unsigned v6_count);
simp_receive_batch *simp_receive_batch_new(size_t slot_bytes);
void simp_receive_batch_free(simp_receive_batch *batch);
/// One recvmmsg. Returns how many entries of `*received` are filled; they are good until the next call.
int simp_udp_receive(int fd, simp_receive_batch *batch, simp_datagram **received);
/// One sendmmsg of up to SIMP_BATCH entries; `family` is the socket's. Returns how many went out.
int simp_udp_send(int fd, int family, const uint8_t *base, const simp_outgoing *list, int count);

// Clocks, timers, threads.
uint64_t simp_monotonic_nanoseconds(void);
uint64_t simp_wall_milliseconds(void);
int simp_timer_open(void);
/// Arms for an absolute monotonic time; 0 disarms.
int simp_timer_arm(int fd, uint64_t nanoseconds);
/// Starts a joinable thread in which every signal is blocked, and which yields the processor by `niceness` (0 to 19) more
/// than its maker; a kernel that does not permit that leaves it as it is. Returns 0 or an error.
int simp_thread_start(
    const char *name, int niceness, void (*body)(void *), void *argument, uint64_t *thread);
uint64_t simp_thread_current(void);
int simp_thread_join(uint64_t thread);
void simp_thread_detach(uint64_t thread);
const char *simp_error_text(int code);
/// Sends `text` as one datagram to the Unix socket at `path`, of which `@` in front stands for an abstract name. Never
/// blocks. 0, or -errno.
int simp_tell_service_manager(const char *path, const char *text);

typedef struct simp_lock simp_lock;

simp_lock *simp_lock_new(void);
void simp_lock_free(simp_lock *lock);
void simp_lock_take(simp_lock *lock);
void simp_lock_give(simp_lock *lock);

// Files.
/// Opens a file to append to, making it (mode 0600) if need be.
int simp_open_to_append(const char *path);
/// Opens (making it if need be) and locks a file. -EWOULDBLOCK when another process holds it; `*holder` is then the
/// process id read from the file, 0 when none stands there. On success the own process id is written to the file.
int simp_lock_file(const char *path, int64_t *holder);
/// Gives the lock back, whoever else has a copy of the descriptor, and closes it.
void simp_unlock_file(int fd);

/// Whether the processor has instructions for AES and for the multiplication of GCM.
int simp_has_aes_instructions(void);

// Keys. All return 1 on success, 0 on failure.
typedef struct simp_aead simp_aead;

int simp_random(uint8_t *bytes, size_t count);
int simp_hkdf_sha256(const uint8_t *salt, size_t salt_count, const uint8_t *secret, size_t secret_count,
                     const uint8_t *info, size_t info_count, uint8_t *out, size_t out_count);
void simp_wipe(void *bytes, size_t count);
/// One direction under one key; `cipher` 1 AES-128-GCM, 2 ChaCha20-Poly1305. NULL on failure.
simp_aead *simp_aead_new(int cipher, int sealing, const uint8_t *key);
void simp_aead_free(simp_aead *aead);
int simp_aead_seal(simp_aead *aead, const uint8_t nonce[12], const uint8_t *data, size_t data_count, uint8_t *text,
                   size_t text_count, uint8_t tag[16]);
int simp_aead_open(simp_aead *aead, const uint8_t nonce[12], const uint8_t *data, size_t data_count, uint8_t *text,
                   size_t text_count, const uint8_t tag[16]);

#include "CSimpTLS.h"
