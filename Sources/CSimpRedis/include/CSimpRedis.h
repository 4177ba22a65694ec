#pragma once
#include <hiredis/async.h>

/// redisAsyncHandleWrite without the SIGPIPE that its write(2) raises when Redis is gone: the signal is blocked in the
/// calling thread for the call and taken out again if it came, so that the process's disposition does not matter.
void simp_redis_handle_write(redisAsyncContext *context);
