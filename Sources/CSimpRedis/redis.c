#include "CSimpRedis.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

void simp_redis_handle_write(redisAsyncContext *context) {
  sigset_t pipe_signal, before, waiting;
  sigemptyset(&pipe_signal);
  sigaddset(&pipe_signal, SIGPIPE);
  // A signal that was waiting before the call is not ours to take.
  sigpending(&waiting);
  int was_waiting = sigismember(&waiting, SIGPIPE);
  if (pthread_sigmask(SIG_BLOCK, &pipe_signal, &before) != 0) {
    redisAsyncHandleWrite(context);
    return;
  }
  redisAsyncHandleWrite(context);
  if (!was_waiting) {
    struct timespec at_once = {0, 0};
    while (sigtimedwait(&pipe_signal, NULL, &at_once) == SIGPIPE) {
    }
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}
