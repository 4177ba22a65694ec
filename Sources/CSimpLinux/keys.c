#include "CSimpLinux.h"
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/rand.h>
#include <stdlib.h>

struct simp_aead {
  EVP_CIPHER_CTX *context;
};

int simp_random(uint8_t *bytes, size_t count) {
  while (count > 0) {
    int part = count > 1 << 20 ? 1 << 20 : (int)count;
    if (RAND_bytes(bytes, part) != 1) return 0;
    bytes += part;
    count -= (size_t)part;
  }
  return 1;
}

int simp_hkdf_sha256(const uint8_t *salt, size_t salt_count, const uint8_t *secret, size_t secret_count,
                     const uint8_t *info, size_t info_count, uint8_t *out, size_t out_count) {
  EVP_KDF *kdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
  EVP_KDF_CTX *context = kdf ? EVP_KDF_CTX_new(kdf) : NULL;
  EVP_KDF_free(kdf);
  if (!context) return 0;
  OSSL_PARAM parameters[5], *next = parameters;
  *next++ = OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, (char *)"SHA256", 0);
  *next++ = OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, (void *)secret, secret_count);
  if (salt_count > 0) *next++ = OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT, (void *)salt, salt_count);
  if (info_count > 0) *next++ = OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, (void *)info, info_count);
  *next = OSSL_PARAM_construct_end();
  int done = EVP_KDF_derive(context, out, out_count, parameters) == 1;
  EVP_KDF_CTX_free(context);
  if (!done) ERR_clear_error();
  return done;
}

void simp_wipe(void *bytes, size_t count) { OPENSSL_cleanse(bytes, count); }

simp_aead *simp_aead_new(int cipher, int sealing, const uint8_t *key) {
  EVP_CIPHER *kind = EVP_CIPHER_fetch(NULL, cipher == 1 ? "AES-128-GCM" : "ChaCha20-Poly1305", NULL);
  if (!kind) return NULL;
  EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
  // Both suites have 12-byte nonces by default. The context keeps its own reference to the cipher.
  int done = context && EVP_CipherInit_ex2(context, kind, key, NULL, sealing, NULL) == 1;
  EVP_CIPHER_free(kind);
  simp_aead *aead = done ? malloc(sizeof *aead) : NULL;
  if (!aead) {
    EVP_CIPHER_CTX_free(context);
    return NULL;
  }
  aead->context = context;
  return aead;
}

void simp_aead_free(simp_aead *aead) {
  if (!aead) return;
  EVP_CIPHER_CTX_free(aead->context); // wipes the key schedule
  free(aead);
}

int simp_aead_seal(simp_aead *aead, const uint8_t nonce[12], const uint8_t *data, size_t data_count, uint8_t *text,
                   size_t text_count, uint8_t tag[16]) {
  EVP_CIPHER_CTX *context = aead->context;
  int count = 0;
  uint8_t nothing[16];
  return EVP_EncryptInit_ex(context, NULL, NULL, NULL, nonce) == 1 &&
         EVP_EncryptUpdate(context, NULL, &count, data, (int)data_count) == 1 &&
         (text_count == 0 || EVP_EncryptUpdate(context, text, &count, text, (int)text_count) == 1) &&
         EVP_EncryptFinal_ex(context, nothing, &count) == 1 &&
         EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, 16, tag) == 1;
}

int simp_aead_open(simp_aead *aead, const uint8_t nonce[12], const uint8_t *data, size_t data_count, uint8_t *text,
                   size_t text_count, const uint8_t tag[16]) {
  EVP_CIPHER_CTX *context = aead->context;
  int count = 0;
  uint8_t nothing[16];
  int done = EVP_DecryptInit_ex(context, NULL, NULL, NULL, nonce) == 1 &&
             EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, 16, (void *)tag) == 1 &&
             EVP_DecryptUpdate(context, NULL, &count, data, (int)data_count) == 1 &&
             (text_count == 0 || EVP_DecryptUpdate(context, text, &count, text, (int)text_count) == 1) &&
             EVP_DecryptFinal_ex(context, nothing, &count) == 1;
  // Forged datagrams must not grow the thread's error queue.
  if (!done) ERR_clear_error();
  return done;
}
