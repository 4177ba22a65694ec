#include "CSimpTLS.h"
#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static X509 *x509(const simp_certificate *certificate) { return (X509 *)certificate; }

void simp_bytes_free(simp_bytes *bytes) {
  OPENSSL_clear_free(bytes->bytes, bytes->count);
  *bytes = (simp_bytes){NULL, 0};
}

const char *simp_tls_error_text(void) {
  const char *text = ERR_reason_error_string(ERR_peek_error());
  ERR_clear_error();
  return text ? text : "no reason given";
}

static int take(BIO *memory, simp_bytes *out) {
  char *bytes = NULL;
  long count = BIO_get_mem_data(memory, &bytes);
  if (count <= 0) return 0;
  out->bytes = OPENSSL_malloc((size_t)count);
  if (!out->bytes) return 0;
  memcpy(out->bytes, bytes, (size_t)count);
  out->count = (size_t)count;
  return 1;
}

int simp_key_make(simp_bytes *pem) {
  ERR_clear_error();
  EVP_PKEY *key = EVP_EC_gen("P-256");
  BIO *memory = BIO_new(BIO_s_secmem());
  int done = key && memory && PEM_write_bio_PrivateKey(memory, key, NULL, NULL, 0, NULL, NULL) == 1 && take(memory, pem);
  BIO_free(memory);
  EVP_PKEY_free(key);
  return done;
}

static int add(X509 *certificate, int kind, const char *value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, certificate, certificate, NULL, NULL, 0);
  X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, kind, value);
  int done = extension && X509_add_ext(certificate, extension, -1) == 1;
  X509_EXTENSION_free(extension);
  return done;
}

static int number(X509 *certificate) {
  uint8_t bytes[16];
  if (RAND_bytes(bytes, sizeof bytes) != 1) return 0;
  bytes[0] = (bytes[0] & 0x7F) | 0x40; // positive, and always 16 bytes
  BIGNUM *random = BN_bin2bn(bytes, sizeof bytes, NULL);
  int done = random && BN_to_ASN1_INTEGER(random, X509_get_serialNumber(certificate)) != NULL;
  BN_free(random);
  return done;
}

static int name(X509 *certificate, const char *common_name) {
  X509_NAME *subject = X509_get_subject_name(certificate);
  return X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, (const unsigned char *)common_name, -1, -1, 0) == 1 &&
         X509_set_issuer_name(certificate, subject) == 1;
}

static int fill(X509 *certificate, EVP_PKEY *key, const char *common_name, const char *names, int64_t not_before,
                int64_t not_after) {
  return X509_set_version(certificate, X509_VERSION_3) == 1 && number(certificate) && name(certificate, common_name) &&
         ASN1_TIME_set(X509_getm_notBefore(certificate), (time_t)not_before) &&
         ASN1_TIME_set(X509_getm_notAfter(certificate), (time_t)not_after) &&
         X509_set_pubkey(certificate, key) == 1 && add(certificate, NID_subject_key_identifier, "hash") &&
         add(certificate, NID_basic_constraints, "critical,CA:FALSE") &&
         add(certificate, NID_key_usage, "critical,digitalSignature") &&
         add(certificate, NID_ext_key_usage, "serverAuth") && add(certificate, NID_subject_alt_name, names) &&
         X509_sign(certificate, key, EVP_sha256()) > 0;
}

int simp_certificate_make(const uint8_t *key_pem, size_t key_count, const char *common_name, const char *names,
                          int64_t not_before, int64_t not_after, simp_bytes *pem) {
  ERR_clear_error();
  BIO *source = BIO_new_mem_buf(key_pem, (int)key_count);
  EVP_PKEY *key = source ? PEM_read_bio_PrivateKey(source, NULL, NULL, (void *)"") : NULL;
  X509 *certificate = X509_new();
  BIO *memory = BIO_new(BIO_s_mem());
  int done = key && certificate && memory && fill(certificate, key, common_name, names, not_before, not_after) &&
             PEM_write_bio_X509(memory, certificate) == 1 && take(memory, pem);
  BIO_free(memory);
  X509_free(certificate);
  EVP_PKEY_free(key);
  BIO_free(source);
  return done;
}

simp_certificate *simp_certificate_parse(const uint8_t *pem, size_t count) {
  ERR_clear_error();
  BIO *source = BIO_new_mem_buf(pem, (int)count);
  X509 *certificate = source ? PEM_read_bio_X509(source, NULL, NULL, (void *)"") : NULL;
  BIO_free(source);
  return (simp_certificate *)certificate;
}

void simp_certificate_free(simp_certificate *certificate) { X509_free((X509 *)certificate); }

int simp_certificate_pin(const simp_certificate *certificate, uint8_t pin[32]) {
  unsigned char *der = NULL;
  int count = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(x509(certificate)), &der);
  if (count <= 0) return 0;
  int done = EVP_Digest(der, (size_t)count, pin, NULL, EVP_sha256(), NULL) == 1;
  OPENSSL_free(der);
  return done;
}

static int seconds(const ASN1_TIME *time, int64_t *out) {
  struct tm parts;
  if (ASN1_TIME_to_tm(time, &parts) != 1) return 0;
  *out = (int64_t)timegm(&parts);
  return 1;
}

int simp_certificate_times(const simp_certificate *certificate, int64_t *not_before, int64_t *not_after) {
  return seconds(X509_get0_notBefore(x509(certificate)), not_before) &&
         seconds(X509_get0_notAfter(x509(certificate)), not_after);
}

/// Appends as much as there is room for; `*used` never exceeds `room`.
static void append(char *out, size_t room, size_t *used, const char *text, size_t count) {
  size_t part = count < room - *used ? count : room - *used;
  memcpy(out + *used, text, part);
  *used += part;
}

static void append_name(char *out, size_t room, size_t *used, const GENERAL_NAME *entry) {
  char text[INET6_ADDRSTRLEN];
  const char *bytes = text;
  size_t count = 0;
  if (entry->type == GEN_DNS) {
    bytes = (const char *)ASN1_STRING_get0_data(entry->d.dNSName);
    count = (size_t)ASN1_STRING_length(entry->d.dNSName);
  } else if (entry->type == GEN_IPADD) {
    int length = ASN1_STRING_length(entry->d.iPAddress);
    int family = length == 4 ? AF_INET : length == 16 ? AF_INET6 : 0;
    if (family && inet_ntop(family, ASN1_STRING_get0_data(entry->d.iPAddress), text, sizeof text)) count = strlen(text);
  }
  if (count == 0) return;
  if (*used > 0) append(out, room, used, ", ", 2);
  append(out, room, used, bytes, count);
}

size_t simp_certificate_names(const simp_certificate *certificate, char *out, size_t room) {
  size_t used = 0;
  GENERAL_NAMES *names = X509_get_ext_d2i(x509(certificate), NID_subject_alt_name, NULL, NULL);
  for (int index = 0; index < sk_GENERAL_NAME_num(names); index++)
    append_name(out, room, &used, sk_GENERAL_NAME_value(names, index));
  GENERAL_NAMES_free(names);
  if (used > 0) return used;
  int got = X509_NAME_get_text_by_NID(X509_get_subject_name(x509(certificate)), NID_commonName, out, (int)room);
  return got > 0 ? (size_t)got : 0;
}

size_t simp_certificate_issuer(const simp_certificate *certificate, char *out, size_t room) {
  BIO *memory = BIO_new(BIO_s_mem());
  if (!memory) return 0;
  size_t used = 0;
  char *text = NULL;
  X509_NAME_print_ex(memory, X509_get_issuer_name(x509(certificate)), 0, XN_FLAG_ONELINE & ~ASN1_STRFLGS_ESC_MSB);
  long count = BIO_get_mem_data(memory, &text);
  if (count > 0) append(out, room, &used, text, (size_t)count);
  BIO_free(memory);
  return used;
}
