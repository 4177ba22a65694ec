#include "address.h"
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>

socklen_t simp_to_sockaddr(const simp_address *from, int family, struct sockaddr_storage *to) {
  if (family == 4) {
    if (from->family != 4) return 0;
    struct sockaddr_in *v4 = (struct sockaddr_in *)to;
    memset(v4, 0, sizeof *v4);
    v4->sin_family = AF_INET;
    v4->sin_port = htons(from->port);
    v4->sin_addr.s_addr = htonl((uint32_t)from->low);
    return sizeof *v4;
  }
  struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)to;
  memset(v6, 0, sizeof *v6);
  v6->sin6_family = AF_INET6;
  v6->sin6_port = htons(from->port);
  uint64_t high = htobe64(from->high);
  uint64_t low = htobe64(from->family == 4 ? 0x0000FFFF00000000ull | (from->low & 0xFFFFFFFFull) : from->low);
  memcpy(v6->sin6_addr.s6_addr, &high, 8);
  memcpy(v6->sin6_addr.s6_addr + 8, &low, 8);
  v6->sin6_scope_id = from->family == 6 ? from->scope : 0;
  return sizeof *v6;
}

int simp_from_sockaddr(const struct sockaddr *from, simp_address *to) {
  memset(to, 0, sizeof *to);
  if (from->sa_family == AF_INET) {
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)from;
    to->family = 4;
    to->port = ntohs(v4->sin_port);
    to->low = ntohl(v4->sin_addr.s_addr);
    return 0;
  }
  if (from->sa_family != AF_INET6) return -1;
  const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)from;
  uint64_t high, low;
  memcpy(&high, v6->sin6_addr.s6_addr, 8);
  memcpy(&low, v6->sin6_addr.s6_addr + 8, 8);
  to->high = be64toh(high);
  to->low = be64toh(low);
  to->port = ntohs(v6->sin6_port);
  to->family = 6;
  if (to->high == 0 && to->low >> 32 == 0xFFFF) {
    to->family = 4;
    to->low &= 0xFFFFFFFFull;
  } else {
    to->scope = v6->sin6_scope_id;
  }
  return 0;
}

static int lookup(const char *host, int flags, simp_address *out, int room) {
  struct addrinfo hints = {0}, *list = NULL;
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM; // one entry an address, not one for each kind of socket
  hints.ai_flags = flags;
  int code = getaddrinfo(host, NULL, &hints, &list);
  if (code != 0) return code < 0 ? code : -code;
  int count = 0;
  for (struct addrinfo *entry = list; entry && count < room; entry = entry->ai_next)
    if (simp_from_sockaddr(entry->ai_addr, &out[count]) == 0) count++;
  freeaddrinfo(list);
  return count;
}

int simp_address_parse(const char *text, simp_address *out) {
  // inet_pton first: getaddrinfo also takes "127.1" and "0x7f000001", which nobody means.
  struct in_addr v4;
  if (inet_pton(AF_INET, text, &v4) == 1) {
    memset(out, 0, sizeof *out);
    out->family = 4;
    out->low = ntohl(v4.s_addr);
    return 0;
  }
  if (!strchr(text, ':')) return -1;
  return lookup(text, AI_NUMERICHOST, out, 1) == 1 ? 0 : -1;
}

int simp_resolve(const char *host, simp_address *out, int room) { return lookup(host, AI_ADDRCONFIG, out, room); }

const char *simp_resolve_error(int code) { return gai_strerror(code); }
