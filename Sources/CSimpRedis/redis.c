#include "CSimpRedis.h"
