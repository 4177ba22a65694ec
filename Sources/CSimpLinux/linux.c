#include "CSimpLinux.h"
