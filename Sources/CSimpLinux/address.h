#pragma once
#include "CSimpLinux.h"
#include <sys/socket.h>

/// Writes `from` for a socket of `family` (4 or 6): an IPv4 address goes to an IPv6 socket as ::ffff:a.b.c.d.
/// Returns the length, 0 when the address cannot be reached from that family.
socklen_t simp_to_sockaddr(const simp_address *from, int family, struct sockaddr_storage *to);

/// ::ffff:a.b.c.d is read as IPv4. Returns 0, or -1 for another family.
int simp_from_sockaddr(const struct sockaddr *from, simp_address *to);
