#include <hiredis/async.h>
#include <hiredis/hiredis.h>
