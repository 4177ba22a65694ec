#ifndef SIMP_FALSE_CLOCK_H
#define SIMP_FALSE_CLOCK_H

/// The environment variable that names a file of 8 bytes: by how many seconds, a signed number in the machine's order, the
/// wall clock is wrong. It is mapped, so whoever changes it changes the clock of a running program.
#define SIMP_FALSE_CLOCK_FILE "FALSE_CLOCK_FILE"

#endif
