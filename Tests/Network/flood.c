/* flood: what somebody without a login can send, as fast as one core makes it.
 *
 *   flood MODE HOST PORT SECONDS [FILE]
 *
 * Datagrams from one socket, in batches, to HOST:PORT for SECONDS:
 *   junk      random bytes of random length
 *   empty     nothing in them
 *   headers   right by length and first bytes, with unknown connection ids
 *   tags      FILE holds datagrams (u16 length, bytes; big endian): their clear headers, the rest random
 *   replay    the datagrams of FILE as they are, over and over
 * Connections, as many as fit (each from the next of this machine's addresses of the interface towards HOST), held until
 * the end; one that is closed is opened again:
 *   idle      nothing is sent
 *   hello     the TLS hello in FILE, and no more: the server has all the work of a handshake
 *   slow      the same, a byte of it each 200 ms
 * At the end, or on SIGTERM, prints: sent=N received_bytes=N opened=N closed=N
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 64, SLOT = 1400, CONNECTIONS = 5000 };

static volatile sig_atomic_t stopping;
static void on_signal(int s) { (void)s; stopping = 1; }
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec * 1e-9; }
static uint64_t rng = 88172645463325252ull;
static uint64_t next(void) { rng ^= rng << 13; rng ^= rng >> 7; rng ^= rng << 17; return rng; }
static void fill(unsigned char *at, int count) {
  for (int i = 0; i < count; i += 8) {
    uint64_t word = next();
    memcpy(at + i, &word, count - i < 8 ? count - i : 8);
  }
}

static unsigned char *recorded[4096];
static int recorded_length[4096], recorded_count;
static void load(const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file) { perror(path); exit(2); }
  unsigned char head[2];
  while (recorded_count < 4096 && fread(head, 1, 2, file) == 2) {
    int length = head[0] << 8 | head[1];
    unsigned char *bytes = malloc(length + 8);
    if (!bytes || (int)fread(bytes, 1, length, file) != length) break;
    recorded[recorded_count] = bytes;
    recorded_length[recorded_count++] = length;
  }
  fclose(file);
  if (!recorded_count) { fprintf(stderr, "flood: %s holds nothing\n", path); exit(2); }
}

static long sent, received, opened, closed_count;

static int compose(const char *mode, unsigned char *at) {
  if (!strcmp(mode, "empty")) return 0;
  if (!strcmp(mode, "junk")) {
    int length = 1 + next() % 1200;
    fill(at, length);
    return length;
  }
  if (!strcmp(mode, "headers")) {
    int length = 48 + next() % 1153;
    fill(at, length);
    at[0] = 1;
    at[1] = 0;
    at[2] = 0;
    return length;
  }
  int which = next() % recorded_count, length = recorded_length[which];
  memcpy(at, recorded[which], length);
  if (!strcmp(mode, "tags")) {
    // Numbers that were never seen: what decides is the tag.
    fill(at + 12, length - 12);
  }
  return length;
}

static void datagrams(const char *mode, struct sockaddr_in to, double end) {
  static unsigned char bytes[BATCH][SLOT];
  struct mmsghdr headers[BATCH];
  struct iovec vectors[BATCH];
  int fd = socket(AF_INET, SOCK_DGRAM, 0);
  int size = 4 << 20;
  setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size);
  setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size);
  if (connect(fd, (struct sockaddr *)&to, sizeof to) != 0) { perror("flood"); exit(2); }
  while (!stopping && now() < end) {
    for (int i = 0; i < BATCH; i++) {
      vectors[i] = (struct iovec){bytes[i], compose(mode, bytes[i])};
      headers[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &vectors[i], .msg_iovlen = 1}};
    }
    int done = sendmmsg(fd, headers, BATCH, 0);
    if (done > 0) sent += done;
    unsigned char reply[2048];
    ssize_t got;
    while ((got = recv(fd, reply, sizeof reply, MSG_DONTWAIT)) >= 0) received += got ? got : 1;
  }
  // What is under way yet.
  usleep(200000);
  unsigned char reply[2048];
  ssize_t got;
  while ((got = recv(fd, reply, sizeof reply, MSG_DONTWAIT)) >= 0) received += got ? got : 1;
}

static struct in_addr sources[256];
static int source_count;
static void find_sources(struct in_addr host) {
  struct ifaddrs *list, *each;
  if (getifaddrs(&list) != 0) return;
  for (each = list; each; each = each->ifa_next) {
    if (!each->ifa_addr || each->ifa_addr->sa_family != AF_INET || source_count == 256) continue;
    struct in_addr address = ((struct sockaddr_in *)each->ifa_addr)->sin_addr;
    // The /16 of the server.
    if ((ntohl(address.s_addr) ^ ntohl(host.s_addr)) >> 16 == 0) sources[source_count++] = address;
  }
  freeifaddrs(list);
}

static int fds[CONNECTIONS], progress[CONNECTIONS], is_up[CONNECTIONS];
static int poller;

static void open_one(int index, struct sockaddr_in to) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  if (fd < 0) return;
  if (source_count) {
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr = sources[index % source_count]};
    bind(fd, (struct sockaddr *)&from, sizeof from);
  }
  if (connect(fd, (struct sockaddr *)&to, sizeof to) != 0 && errno != EINPROGRESS) {
    close(fd);
    return;
  }
  fds[index] = fd;
  progress[index] = is_up[index] = 0;
  struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLHUP | EPOLLET, .data.u32 = index};
  epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event);
  opened++;
}

static void connections(const char *mode, struct sockaddr_in to, double end) {
  struct rlimit limit = {20000, 20000};
  setrlimit(RLIMIT_NOFILE, &limit);
  find_sources(to.sin_addr);
  const unsigned char *hello = recorded[0];
  poller = epoll_create1(0);
  for (int i = 0; i < CONNECTIONS; i++) fds[i] = -1;
  int wants_hello = !strcmp(mode, "hello"), is_slow = !strcmp(mode, "slow");
  double next_byte = now();
  for (int cursor = 0; !stopping && now() < end;) {
    for (int i = 0; i < 50; i++, cursor = (cursor + 1) % CONNECTIONS)
      if (fds[cursor] < 0) open_one(cursor, to);
    struct epoll_event events[256];
    int count = epoll_wait(poller, events, 256, 1);
    for (int i = 0; i < count; i++) {
      int index = events[i].data.u32, fd = fds[index];
      if (fd < 0) continue;
      if (events[i].events & EPOLLOUT && !is_up[index]) {
        is_up[index] = 1;
        if (wants_hello && send(fd, hello, recorded_length[0], MSG_NOSIGNAL) > 0) sent++;
      }
      unsigned char reply[2048];
      ssize_t got;
      while ((got = recv(fd, reply, sizeof reply, 0)) > 0) received += got;
      if (got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK)) {
        close(fd);
        fds[index] = -1;
        closed_count++;
      }
    }
    if (is_slow && now() >= next_byte) {
      next_byte = now() + 0.2;
      for (int i = 0; i < CONNECTIONS; i++)
        if (fds[i] >= 0 && is_up[i] && progress[i] < recorded_length[0] - 1 &&
            send(fds[i], hello + progress[i]++, 1, MSG_NOSIGNAL) == 1) sent++;
    }
  }
}

int main(int argc, char **argv) {
  if (argc < 5) { fprintf(stderr, "flood MODE HOST PORT SECONDS [FILE]\n"); return 2; }
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[3]))};
  if (inet_pton(AF_INET, argv[2], &to.sin_addr) != 1) return 2;
  signal(SIGTERM, on_signal);
  signal(SIGINT, on_signal);
  signal(SIGPIPE, SIG_IGN);
  if (argc > 5) load(argv[5]);
  double end = now() + atof(argv[4]);
  fprintf(stderr, "flooding\n");
  if (!strcmp(argv[1], "idle") || !strcmp(argv[1], "hello") || !strcmp(argv[1], "slow")) connections(argv[1], to, end);
  else datagrams(argv[1], to, end);
  printf("sent=%ld received_bytes=%ld opened=%ld closed=%ld\n", sent, received, opened, closed_count);
  return 0;
}
