#include "address.h"
#include <errno.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

struct simp_receive_batch {
  struct mmsghdr headers[SIMP_BATCH];
  struct iovec vectors[SIMP_BATCH];
  struct sockaddr_in6 addresses[SIMP_BATCH]; // holds a sockaddr_in as well
  simp_datagram datagrams[SIMP_BATCH];
  size_t slot_bytes;
  uint8_t bytes[];
};

static int fail(int fd) {
  int code = errno;
  close(fd);
  return -code;
}

static int enable(int fd, int level, int option, int value) {
  return setsockopt(fd, level, option, &value, sizeof value);
}

// The kernel answers with twice what it was asked for: its own book-keeping counts too. The figure reported is what
// the kernel grants, less than was asked where net.core.rmem_max stands in the way.
static int ask_buffer(int fd, int option, int forced_option, int bytes) {
  // The forced form goes past rmem_max and wmem_max, for those who have CAP_NET_ADMIN.
  if (enable(fd, SOL_SOCKET, forced_option, bytes) != 0) enable(fd, SOL_SOCKET, option, bytes);
  int got = 0;
  socklen_t size = sizeof got;
  if (getsockopt(fd, SOL_SOCKET, option, &got, &size) != 0) return 0;
  return got / 2;
}

int simp_udp_open(const simp_address *at, int reuse_port, int buffer_bytes, int *receive_buffer, int *send_buffer) {
  struct sockaddr_storage storage;
  socklen_t size = simp_to_sockaddr(at, at->family, &storage);
  int fd = socket(storage.ss_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -errno;
  // No SO_REUSEADDR: for UDP it would let a stranger share the port.
  if (reuse_port && enable(fd, SOL_SOCKET, SO_REUSEPORT, 1) != 0) return fail(fd);
  if (at->family == 6 && enable(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0) != 0) return fail(fd);
  *receive_buffer = ask_buffer(fd, SO_RCVBUF, SO_RCVBUFFORCE, buffer_bytes);
  *send_buffer = ask_buffer(fd, SO_SNDBUF, SO_SNDBUFFORCE, buffer_bytes);
  if (bind(fd, (struct sockaddr *)&storage, size) != 0) return fail(fd);
  return fd;
}

int simp_udp_steer(int fd, unsigned offset, unsigned sockets) {
  // Offset 0 is the first payload byte: the kernel runs the program behind the UDP header. A datagram too short to
  // have the byte ends the program with 0.
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_B | BPF_ABS, offset),
      BPF_STMT(BPF_ALU | BPF_MOD | BPF_K, sockets),
      BPF_STMT(BPF_RET | BPF_A, 0),
  };
  struct sock_fprog program = {.len = sizeof code / sizeof code[0], .filter = code};
  int done = setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof program);
  return done == 0 ? 0 : -errno;
}

int simp_udp_admit(int fd, unsigned shortest, unsigned longest, unsigned mask, unsigned value, const uint32_t *v4,
                   unsigned v4_count, const uint64_t *v6, unsigned v6_count) {
  if (v4_count + v6_count > SIMP_REFUSED) return -EINVAL;
  // Offset 0 is the UDP header here, of 8 bytes. A load beyond the end ends the program with 0: dropped.
  enum { header = 8 };
  struct sock_filter code[16 + 6 * SIMP_REFUSED] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0),
      BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, header + shortest, 0, 4),
      BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, header + longest, 3, 0),
      BPF_STMT(BPF_LD | BPF_H | BPF_ABS, header),
      BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, 0),
      // The source: in the header of IPv4 at 12, in that of IPv6 at 8.
      BPF_STMT(BPF_LD | BPF_B | BPF_ABS, (unsigned)SKF_NET_OFF),
      BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 4),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 4, 0, (uint8_t)(2 * v4_count + 2)),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)SKF_NET_OFF + 12),
  };
  unsigned short count = 11;
  for (unsigned i = 0; i < v4_count; i++) {
    code[count++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, v4[i], 0, 1);
    code[count++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 0);
  }
  code[count++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 0xFFFFFFFF);
  for (unsigned i = 0; i < v6_count; i++) {
    code[count++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)SKF_NET_OFF + 8);
    code[count++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(v6[i] >> 32), 0, 3);
    code[count++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)SKF_NET_OFF + 12);
    code[count++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)v6[i], 0, 1);
    code[count++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 0);
  }
  code[count++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 0xFFFFFFFF);
  struct sock_fprog program = {.len = count, .filter = code};
  int done = setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
  return done == 0 ? 0 : -errno;
}

simp_receive_batch *simp_receive_batch_new(size_t slot_bytes) {
  simp_receive_batch *batch = calloc(1, sizeof *batch + SIMP_BATCH * slot_bytes);
  if (!batch) abort();
  batch->slot_bytes = slot_bytes;
  for (int i = 0; i < SIMP_BATCH; i++) {
    batch->vectors[i] = (struct iovec){batch->bytes + i * slot_bytes, slot_bytes};
    struct msghdr *header = &batch->headers[i].msg_hdr;
    header->msg_iov = &batch->vectors[i];
    header->msg_iovlen = 1;
    header->msg_name = &batch->addresses[i];
  }
  return batch;
}

void simp_receive_batch_free(simp_receive_batch *batch) { free(batch); }

int simp_udp_receive(int fd, simp_receive_batch *batch, simp_datagram **received) {
  for (int i = 0; i < SIMP_BATCH; i++) {
    batch->headers[i].msg_hdr.msg_namelen = sizeof batch->addresses[i];
    batch->headers[i].msg_hdr.msg_flags = 0;
  }
  int got;
  do got = recvmmsg(fd, batch->headers, SIMP_BATCH, 0, NULL);
  while (got < 0 && errno == EINTR);
  if (got < 0) return -errno;
  for (int i = 0; i < got; i++) {
    simp_datagram *datagram = &batch->datagrams[i];
    datagram->bytes = batch->bytes + i * batch->slot_bytes;
    datagram->count = batch->headers[i].msg_len;
    datagram->truncated = (batch->headers[i].msg_hdr.msg_flags & MSG_TRUNC) != 0;
    simp_from_sockaddr((struct sockaddr *)&batch->addresses[i], &datagram->from);
  }
  *received = batch->datagrams;
  return got;
}

int simp_udp_send(int fd, int family, const uint8_t *base, const simp_outgoing *list, int count) {
  struct mmsghdr headers[SIMP_BATCH];
  struct iovec vectors[SIMP_BATCH];
  struct sockaddr_storage addresses[SIMP_BATCH];
  if (count > SIMP_BATCH) count = SIMP_BATCH;
  int ready = 0;
  for (; ready < count; ready++) {
    socklen_t size = simp_to_sockaddr(&list[ready].to, family, &addresses[ready]);
    if (size == 0) {
      if (ready == 0) return -EAFNOSUPPORT;
      break;
    }
    vectors[ready] = (struct iovec){(void *)(base + list[ready].offset), list[ready].count};
    headers[ready] = (struct mmsghdr){.msg_hdr = {.msg_name = &addresses[ready],
                                                  .msg_namelen = size,
                                                  .msg_iov = &vectors[ready],
                                                  .msg_iovlen = 1}};
  }
  int sent;
  do sent = sendmmsg(fd, headers, ready, MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  return sent < 0 ? -errno : sent;
}
