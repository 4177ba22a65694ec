#include "CSimpKeys.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <string.h>

enum { RSA_PARTS = 8, MINIMUM_RSA_BITS = 2048, MAXIMUM_RSA_BITS = 8192 };

// length 0: absent.
typedef struct {
  size_t length;
  uint8_t bytes[SIMP_KEY_NUMBER_BYTES];
} number;

struct simp_key_numbers {
  number n, e, d, p, q, dp, dq, qi, x, y;
};

typedef struct {
  const char *name;
  size_t offset;
  // OpenSSL's name, of the parts of an RSA key.
  const char *parameter;
} part;

// The parts of an RSA key first, in the order in which they are given to OpenSSL.
static const part parts[] = {
    {"n", offsetof(simp_key_numbers, n), OSSL_PKEY_PARAM_RSA_N},
    {"e", offsetof(simp_key_numbers, e), OSSL_PKEY_PARAM_RSA_E},
    {"d", offsetof(simp_key_numbers, d), OSSL_PKEY_PARAM_RSA_D},
    {"p", offsetof(simp_key_numbers, p), OSSL_PKEY_PARAM_RSA_FACTOR1},
    {"q", offsetof(simp_key_numbers, q), OSSL_PKEY_PARAM_RSA_FACTOR2},
    {"dp", offsetof(simp_key_numbers, dp), OSSL_PKEY_PARAM_RSA_EXPONENT1},
    {"dq", offsetof(simp_key_numbers, dq), OSSL_PKEY_PARAM_RSA_EXPONENT2},
    {"qi", offsetof(simp_key_numbers, qi), OSSL_PKEY_PARAM_RSA_COEFFICIENT1},
    {"x", offsetof(simp_key_numbers, x), NULL},
    {"y", offsetof(simp_key_numbers, y), NULL},
};
enum { PARTS = sizeof parts / sizeof parts[0] };

static number *number_at(const simp_key_numbers *numbers, int index) {
  return (number *)((char *)numbers + parts[index].offset);
}

static number *number_named(const simp_key_numbers *numbers, const char *name) {
  for (int index = 0; index < PARTS; index++)
    if (strcmp(parts[index].name, name) == 0) return number_at(numbers, index);
  return NULL;
}

simp_key_numbers *simp_key_numbers_new(void) { return OPENSSL_zalloc(sizeof(simp_key_numbers)); }
void simp_key_numbers_free(simp_key_numbers *numbers) { OPENSSL_clear_free(numbers, sizeof *numbers); }

int simp_key_set(simp_key_numbers *numbers, const char *name, const uint8_t *bytes, size_t length) {
  number *found = number_named(numbers, name);
  if (found == NULL || length == 0 || length > sizeof found->bytes) return 0;
  memcpy(found->bytes, bytes, length);
  found->length = length;
  return 1;
}

size_t simp_key_get(const simp_key_numbers *numbers, const char *name, uint8_t *room) {
  const number *found = number_named(numbers, name);
  if (found == NULL) return 0;
  memcpy(room, found->bytes, found->length);
  return found->length;
}

static EVP_PKEY *from_params(const char *type, OSSL_PARAM_BLD *builder, int selection) {
  EVP_PKEY *key = NULL;
  OSSL_PARAM *params = OSSL_PARAM_BLD_to_param(builder);
  EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_name(NULL, type, NULL);
  if (params == NULL || context == NULL || EVP_PKEY_fromdata_init(context) <= 0 ||
      EVP_PKEY_fromdata(context, &key, selection, params) <= 0)
    key = NULL;
  EVP_PKEY_CTX_free(context);
  OSSL_PARAM_free(params);
  return key;
}

static int is_consistent(EVP_PKEY *key, int is_private) {
  EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_pkey(NULL, key, NULL);
  // A private key also signs, and what it signs must be good for the public half.
  int good = context != NULL && EVP_PKEY_public_check(context) == 1 &&
             (!is_private || EVP_PKEY_pairwise_check(context) == 1);
  EVP_PKEY_CTX_free(context);
  return good;
}

static int take_pem(BIO *bio, char *room) {
  char *data = NULL;
  long length = BIO_get_mem_data(bio, &data);
  if (length <= 0 || length >= SIMP_KEY_PEM_BYTES) return 0;
  memcpy(room, data, (size_t)length);
  room[length] = 0;
  return 1;
}

static int write_pem(EVP_PKEY *key, int is_private, char *public_pem, char *private_pem) {
  BIO *bio = BIO_new(BIO_s_mem());
  int good = bio != NULL && PEM_write_bio_PUBKEY(bio, key) == 1 && take_pem(bio, public_pem);
  BIO_free(bio);
  private_pem[0] = 0;
  if (good && is_private) {
    BIO *secret = BIO_new(BIO_s_secmem());
    good = secret != NULL && PEM_write_bio_PrivateKey(secret, key, NULL, NULL, 0, NULL, NULL) == 1 &&
           take_pem(secret, private_pem);
    BIO_free(secret);
  }
  return good ? SIMP_KEY_GOOD : SIMP_KEY_BAD;
}

static int finish(EVP_PKEY *key, int is_private, char *public_pem, char *private_pem) {
  int verdict = key != NULL && is_consistent(key, is_private) ? write_pem(key, is_private, public_pem, private_pem)
                                                              : SIMP_KEY_BAD;
  EVP_PKEY_free(key);
  // Whoever looks at OpenSSL's queue next must not find what was wrong with a key.
  ERR_clear_error();
  return verdict;
}

int simp_key_rsa_pem(const simp_key_numbers *numbers, char *public_pem, char *private_pem) {
  BIGNUM *values[RSA_PARTS] = {0};
  OSSL_PARAM_BLD *builder = OSSL_PARAM_BLD_new();
  int good = builder != NULL, is_private = numbers->d.length > 0;
  // A private key is taken whole or not at all: without its factors it could not be checked.
  int count = is_private ? 8 : 2;
  for (int index = 0; good && index < count; index++) {
    const number *value = number_at(numbers, index);
    values[index] = value->length > 0 ? BN_bin2bn(value->bytes, (int)value->length, NULL) : NULL;
    good = values[index] != NULL && OSSL_PARAM_BLD_push_BN(builder, parts[index].parameter, values[index]);
  }
  int verdict = SIMP_KEY_BAD;
  if (good) {
    int bits = BN_num_bits(values[0]);
    if (bits < MINIMUM_RSA_BITS || bits > MAXIMUM_RSA_BITS || BN_num_bits(values[1]) < 2 || !BN_is_odd(values[1]))
      verdict = SIMP_KEY_WRONG_SIZE;
    else
      verdict = finish(from_params("RSA", builder, is_private ? EVP_PKEY_KEYPAIR : EVP_PKEY_PUBLIC_KEY), is_private,
                       public_pem, private_pem);
  }
  OSSL_PARAM_BLD_free(builder);
  for (int index = 0; index < RSA_PARTS; index++) BN_clear_free(values[index]);
  return verdict;
}

int simp_key_p256_pem(const simp_key_numbers *numbers, char *public_pem, char *private_pem) {
  // RFC 7518, 6.2.1.2: coordinates have the full length of the field.
  if (numbers->x.length != 32 || numbers->y.length != 32 || numbers->d.length > 32) return SIMP_KEY_BAD;
  unsigned char point[65] = {4};
  memcpy(point + 1, numbers->x.bytes, 32);
  memcpy(point + 33, numbers->y.bytes, 32);
  int is_private = numbers->d.length > 0;
  BIGNUM *secret = is_private ? BN_bin2bn(numbers->d.bytes, (int)numbers->d.length, NULL) : NULL;
  OSSL_PARAM_BLD *builder = OSSL_PARAM_BLD_new();
  int good = builder != NULL && OSSL_PARAM_BLD_push_utf8_string(builder, OSSL_PKEY_PARAM_GROUP_NAME, "P-256", 0) &&
             OSSL_PARAM_BLD_push_octet_string(builder, OSSL_PKEY_PARAM_PUB_KEY, point, sizeof point) &&
             (!is_private || (secret != NULL && OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_PRIV_KEY, secret)));
  int verdict = SIMP_KEY_BAD;
  if (good)
    verdict = finish(from_params("EC", builder, is_private ? EVP_PKEY_KEYPAIR : EVP_PKEY_PUBLIC_KEY), is_private,
                     public_pem, private_pem);
  OSSL_PARAM_BLD_free(builder);
  BN_clear_free(secret);
  return verdict;
}

static int get_number(EVP_PKEY *key, const char *name, size_t width, number *number) {
  BIGNUM *value = NULL;
  int good = EVP_PKEY_get_bn_param(key, name, &value) == 1;
  if (good) {
    size_t length = width > 0 ? width : (size_t)BN_num_bytes(value);
    good = length <= sizeof number->bytes && BN_bn2binpad(value, number->bytes, (int)length) == (int)length;
    number->length = good ? length : 0;
  }
  BN_clear_free(value);
  return good;
}

int simp_key_rsa_generate(unsigned bits, simp_key_numbers *numbers) {
  EVP_PKEY *key = EVP_RSA_gen(bits);
  int good = key != NULL;
  for (int index = 0; good && index < RSA_PARTS; index++)
    good = get_number(key, parts[index].parameter, 0, number_at(numbers, index));
  EVP_PKEY_free(key);
  return good;
}

int simp_key_p256_generate(simp_key_numbers *numbers) {
  EVP_PKEY *key = EVP_EC_gen("P-256");
  int good = key != NULL && get_number(key, OSSL_PKEY_PARAM_EC_PUB_X, 32, &numbers->x) &&
             get_number(key, OSSL_PKEY_PARAM_EC_PUB_Y, 32, &numbers->y) &&
             get_number(key, OSSL_PKEY_PARAM_PRIV_KEY, 32, &numbers->d);
  EVP_PKEY_free(key);
  return good;
}
