// Keys of RSA and P-256 between the numbers of a JSON Web Key and PEM, by OpenSSL.
#ifndef CSIMPKEYS_H
#define CSIMPKEYS_H

#include <stddef.h>
#include <stdint.h>

// Enough for PEM of a private RSA key of 8192 bits.
#define SIMP_KEY_PEM_BYTES 8192
// Enough for a number of an RSA key of 8192 bits.
#define SIMP_KEY_NUMBER_BYTES 1024

// The numbers of a key by their names in a JSON Web Key. RSA: n, e and, of a private key, all of d, p, q, dp, dq, qi.
// P-256: x, y and, of a private key, d. Overwritten when freed.
typedef struct simp_key_numbers simp_key_numbers;
simp_key_numbers *simp_key_numbers_new(void);
void simp_key_numbers_free(simp_key_numbers *numbers);

// Big endian, 1 to SIMP_KEY_NUMBER_BYTES long. 0 when there is no such name or the length does not fit.
int simp_key_set(simp_key_numbers *numbers, const char *name, const uint8_t *bytes, size_t length);
// Copies a number to a room of SIMP_KEY_NUMBER_BYTES and returns its length, 0 when it is absent.
size_t simp_key_get(const simp_key_numbers *numbers, const char *name, uint8_t *room);

// What is wrong with a key, 0 for nothing.
enum {
  SIMP_KEY_GOOD = 0,
  // Not a key: numbers missing, a point off the curve, halves that do not belong together.
  SIMP_KEY_BAD = 1,
  // RSA of less than 2048 or more than 8192 bits, or with an exponent below 3.
  SIMP_KEY_WRONG_SIZE = 2,
};

// Writes PEM of the public key and, when d is there, of the private one (else an empty text), each with a zero behind it.
// Both rooms hold SIMP_KEY_PEM_BYTES.
int simp_key_rsa_pem(const simp_key_numbers *numbers, char *public_pem, char *private_pem);
int simp_key_p256_pem(const simp_key_numbers *numbers, char *public_pem, char *private_pem);

// Makes a key. 0 when OpenSSL fails.
int simp_key_rsa_generate(unsigned bits, simp_key_numbers *numbers);
int simp_key_p256_generate(simp_key_numbers *numbers);

#endif
