#include "CSimpLinux.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

uint64_t simp_monotonic_nanoseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t simp_wall_milliseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

int simp_timer_open(void) {
  int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  return fd < 0 ? -errno : fd;
}

int simp_timer_arm(int fd, uint64_t nanoseconds) {
  struct itimerspec spec = {0};
  spec.it_value.tv_sec = (time_t)(nanoseconds / 1000000000u);
  spec.it_value.tv_nsec = (long)(nanoseconds % 1000000000u);
  return timerfd_settime(fd, TFD_TIMER_ABSTIME, &spec, NULL) == 0 ? 0 : -errno;
}

struct start {
  int niceness;
  void (*body)(void *);
  void *argument;
};

static void *thread_main(void *raw) {
  struct start start = *(struct start *)raw;
  free(raw);
  // To Linux 0 is the calling thread here, not the process.
  if (start.niceness > 0) setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + start.niceness);
  start.body(start.argument);
  return NULL;
}

int simp_thread_start(
    const char *name, int niceness, void (*body)(void *), void *argument, uint64_t *thread) {
  struct start *start = malloc(sizeof *start);
  if (!start) return -ENOMEM;
  *start = (struct start){niceness, body, argument};
  // A thread inherits the mask of its maker: blocked here, so that no signal can arrive before the thread blocks it.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t made;
  int code = pthread_create(&made, NULL, thread_main, start);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (code != 0) {
    free(start);
    return -code;
  }
  char shortened[16];
  snprintf(shortened, sizeof shortened, "%s", name);
  pthread_setname_np(made, shortened);
  *thread = (uint64_t)made;
  return 0;
}

uint64_t simp_thread_current(void) { return (uint64_t)pthread_self(); }

int simp_thread_join(uint64_t thread) { return -pthread_join((pthread_t)thread, NULL); }

void simp_thread_detach(uint64_t thread) { pthread_detach((pthread_t)thread); }

struct simp_lock {
  pthread_mutex_t mutex;
};

simp_lock *simp_lock_new(void) {
  simp_lock *lock = malloc(sizeof *lock);
  if (!lock || pthread_mutex_init(&lock->mutex, NULL) != 0) abort();
  return lock;
}

void simp_lock_free(simp_lock *lock) {
  pthread_mutex_destroy(&lock->mutex);
  free(lock);
}

void simp_lock_take(simp_lock *lock) {
  if (pthread_mutex_lock(&lock->mutex) != 0) abort();
}

void simp_lock_give(simp_lock *lock) {
  if (pthread_mutex_unlock(&lock->mutex) != 0) abort();
}

const char *simp_error_text(int code) {
  const char *text = strerrordesc_np(code);
  return text ? text : "unknown error";
}

int simp_open_to_append(const char *path) {
  int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  return fd < 0 ? -errno : fd;
}

int simp_lock_file(const char *path, int64_t *holder) {
  *holder = 0;
  int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return -errno;
  int locked;
  do locked = flock(fd, LOCK_EX | LOCK_NB);
  while (locked != 0 && errno == EINTR);
  int code = locked == 0 ? 0 : errno;
  char text[24] = {0};
  if (code != 0) {
    if (pread(fd, text, sizeof text - 1, 0) > 0) *holder = strtoll(text, NULL, 10);
    close(fd);
    return -code;
  }
  // Only for the error text of others: the lock itself is the kernel's, gone with the process.
  int count = snprintf(text, sizeof text, "%lld\n", (long long)getpid());
  if (ftruncate(fd, 0) != 0 || pwrite(fd, text, (size_t)count, 0) != count) {
    code = errno ? errno : EIO;
    close(fd);
    return -code;
  }
  return fd;
}

void simp_unlock_file(int fd) {
  // Closing alone would leave the lock with a copy that a child has of the descriptor until it executes its program.
  flock(fd, LOCK_UN);
  close(fd);
}

int simp_has_aes_instructions(void) {
#if defined(__x86_64__)
  return __builtin_cpu_supports("aes") && __builtin_cpu_supports("pclmul");
#elif defined(__aarch64__)
  unsigned long both = HWCAP_AES | HWCAP_PMULL;
  return (getauxval(AT_HWCAP) & both) == both;
#else
  return 0;
#endif
}

int simp_tell_service_manager(const char *path, const char *text) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  size_t length = strlen(path);
  if (length < 2 || length >= sizeof address.sun_path) return -EINVAL;
  memcpy(address.sun_path, path, length);
  // An abstract name begins with a zero and has no end but the length.
  if (path[0] == '@') address.sun_path[0] = 0;
  int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -errno;
  socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
  ssize_t sent = sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&address, size);
  int code = sent < 0 ? -errno : 0;
  close(fd);
  return code;
}
