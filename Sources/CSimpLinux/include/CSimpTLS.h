#pragma once
// TLS 1.3 over memory, and certificates: OpenSSL without its macros, callbacks and error queue.
// Nothing here touches a socket. Functions return 1 on success and 0 on failure unless they say otherwise.

#include <stddef.h>
#include <stdint.h>

typedef struct simp_certificate simp_certificate; // an X509
typedef struct simp_tls_context simp_tls_context; // an SSL_CTX
typedef struct simp_tls_session simp_tls_session; // an SSL_SESSION, to resume
typedef struct simp_tls simp_tls;                 // one connection

/// Bytes made here; given back with simp_bytes_free, which overwrites them first.
typedef struct {
  uint8_t *bytes;
  size_t count;
} simp_bytes;

void simp_bytes_free(simp_bytes *bytes);

/// OpenSSL's words for what went wrong in this thread's last failed call; a static text.
const char *simp_tls_error_text(void);

// Certificates.

/// A private key on P-256, as PEM.
int simp_key_make(simp_bytes *pem);
/// A certificate for the server that has `key`, signed by `key` itself, as PEM. `names` in OpenSSL's notation:
/// "DNS:localhost,IP:127.0.0.1". Times are Unix seconds.
int simp_certificate_make(const uint8_t *key, size_t key_count, const char *common_name, const char *names,
                          int64_t not_before, int64_t not_after, simp_bytes *pem);
/// The first certificate of a PEM text, NULL if there is none.
simp_certificate *simp_certificate_parse(const uint8_t *pem, size_t count);
void simp_certificate_free(simp_certificate *certificate);
/// SHA-256 of the public key (SubjectPublicKeyInfo, DER).
int simp_certificate_pin(const simp_certificate *certificate, uint8_t pin[32]);
int simp_certificate_times(const simp_certificate *certificate, int64_t *not_before, int64_t *not_after);
/// The names and addresses it is for, separated by ", "; the common name when it has none of them. Returns the length.
size_t simp_certificate_names(const simp_certificate *certificate, char *out, size_t room);
/// Who signed it, in one line.
size_t simp_certificate_issuer(const simp_certificate *certificate, char *out, size_t room);

// Contexts.

enum {
  SIMP_TLS_GOOD,
  SIMP_TLS_NO_CERTIFICATE,
  SIMP_TLS_BAD_CHAIN,
  SIMP_TLS_NO_KEY,
  SIMP_TLS_ENCRYPTED_KEY,
  SIMP_TLS_KEY_MISMATCH,
  SIMP_TLS_REFUSED, // by OpenSSL; simp_tls_error_text says why
};

/// The first certificate of `certificates` is the server's own, the rest lead to its authority. `ticket_keys` seal
/// session tickets: whoever has the same ones takes up one another's sessions.
simp_tls_context *simp_tls_server_context(const uint8_t *certificates, size_t certificates_count, const uint8_t *key,
                                          size_t key_count, const uint8_t ticket_keys[80], int *outcome);
/// For clients that look at the server's key alone (pins).
simp_tls_context *simp_tls_pinning_context(void);
/// For clients that trust authorities: those of a PEM text, or the system's when it is NULL.
simp_tls_context *simp_tls_verifying_context(const uint8_t *authorities, size_t count, int *outcome);
void simp_tls_context_free(simp_tls_context *context);

// Connections. A connection keeps its context alive.

simp_tls *simp_tls_serve(simp_tls_context *context);
/// `name` is checked against the certificate, and sent as server name unless it is an address. With pins (32 bytes
/// each) the certificate's key must be one of them, and nothing else is looked at. `session` may be NULL.
simp_tls *simp_tls_connect(simp_tls_context *context, const char *name, int is_address, const uint8_t *pins,
                           size_t pin_count, simp_tls_session *session);
void simp_tls_free(simp_tls *tls);

enum { SIMP_TLS_DONE = 1, SIMP_TLS_WANTS_BYTES = 0, SIMP_TLS_FAILED = -1, SIMP_TLS_ENDED = -2 };

/// The bytes that the next calls read from; they must stay until `simp_tls_unfeed`, which returns how many are left.
void simp_tls_feed(simp_tls *tls, const uint8_t *bytes, size_t count);
size_t simp_tls_unfeed(simp_tls *tls);
/// SIMP_TLS_DONE, _WANTS_BYTES or _FAILED.
int simp_tls_handshake(simp_tls *tls);
/// How many bytes were read (1 and up), SIMP_TLS_WANTS_BYTES, _ENDED (the peer sends no more) or _FAILED.
int64_t simp_tls_read(simp_tls *tls, uint8_t *out, size_t room);
/// All of them, or SIMP_TLS_FAILED.
int simp_tls_write(simp_tls *tls, const uint8_t *bytes, size_t count);
/// Says that no more will be sent.
void simp_tls_end(simp_tls *tls);
/// What the socket is to carry; good until the next call. simp_tls_output_taken forgets it.
size_t simp_tls_output(simp_tls *tls, const uint8_t **bytes);
void simp_tls_output_taken(simp_tls *tls);

// What is known of a connection.

/// A session that the server gave since the last call, for the caller to free; NULL if none.
simp_tls_session *simp_tls_take_session(simp_tls *tls);
void simp_tls_session_free(simp_tls_session *session);
int simp_tls_is_resumed(const simp_tls *tls);
/// "TLS_AES_128_GCM_SHA256"; a static text.
const char *simp_tls_cipher(const simp_tls *tls);
/// The protocol agreed on (ALPN); returns its length, 0 for none.
size_t simp_tls_protocol(const simp_tls *tls, char *out, size_t room);
/// The server's certificate as a client knows it after the handshake, also of a resumed session. Borrowed; may be NULL.
const simp_certificate *simp_tls_peer(const simp_tls *tls);

// Why a connection failed.

/// X509_V_… of the refused certificate, 0 if no certificate was refused.
int simp_tls_refusal(const simp_tls *tls);
/// The server's own certificate when one of its chain was refused, and the one refused. Borrowed.
const simp_certificate *simp_tls_refused_leaf(const simp_tls *tls);
const simp_certificate *simp_tls_refused(const simp_tls *tls);
/// The alert that the peer sent, or -1.
int simp_tls_alert(const simp_tls *tls);
/// Whether the peer speaks other versions of TLS only.
int simp_tls_is_other_version(const simp_tls *tls);
/// Whether the client offered protocols (ALPN), and ours is none of them.
int simp_tls_no_shared_protocol(const simp_tls *tls);
/// OpenSSL's reason, a static text.
const char *simp_tls_reason(const simp_tls *tls);
/// OpenSSL's words for a code of simp_tls_refusal.
const char *simp_tls_refusal_text(int code);
