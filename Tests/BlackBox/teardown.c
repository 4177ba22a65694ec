// Preloaded: says when OpenSSL takes its tables down at the end of the process.
#include <openssl/crypto.h>
#include <unistd.h>

static void say(const char *text, size_t count) {
  if (write(2, text, count) != (ssize_t)count) _exit(99);
}

static void torn_down(void) { say("torn down\n", 10); }

__attribute__((constructor)) static void watch(void) {
  if (OPENSSL_atexit(torn_down)) say("watching\n", 9);
}
