#include <openssl/crypto.h>

// A process ends by `exit` while its other threads run on. OpenSSL would tear its tables down at that point, under the
// hands of a thread that just closes a connection, and the process would end by a crash instead of its status. So it
// leaves them to the kernel. Who comes first decides, hence before `main`.
__attribute__((constructor)) static void keep_openssl_to_the_end(void) {
  OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
}
