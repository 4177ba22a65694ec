#include "CSimpTLS.h"
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const unsigned char protocol[] = {6, 's', 'i', 'm', 'p', '/', '1'};

struct simp_tls {
  SSL *ssl;
  const uint8_t *input;
  size_t input_count;
  uint8_t *output;
  size_t output_count;
  size_t output_room;
  uint8_t *pins;
  size_t pin_count;
  SSL_SESSION *session;
  int refusal;
  X509 *refused_leaf;
  X509 *refused;
  int alert;
  int reason;
  const char *reason_text;
};

static SSL_CTX *ctx(simp_tls_context *context) { return (SSL_CTX *)context; }

// The memory that stands where OpenSSL expects a socket: it reads what was fed, and writes to `output`.

static int memory_read(BIO *bio, char *out, size_t room, size_t *count) {
  simp_tls *tls = BIO_get_data(bio);
  BIO_clear_retry_flags(bio);
  if (tls->input_count == 0) {
    BIO_set_retry_read(bio);
    return 0;
  }
  *count = room < tls->input_count ? room : tls->input_count;
  memcpy(out, tls->input, *count);
  tls->input += *count;
  tls->input_count -= *count;
  return 1;
}

static int memory_write(BIO *bio, const char *bytes, size_t count, size_t *written) {
  simp_tls *tls = BIO_get_data(bio);
  BIO_clear_retry_flags(bio);
  if (count > tls->output_room - tls->output_count) {
    size_t room = tls->output_count + count;
    if (room < 2 * tls->output_room) room = 2 * tls->output_room;
    uint8_t *larger = realloc(tls->output, room);
    if (!larger) return 0;
    tls->output = larger;
    tls->output_room = room;
  }
  memcpy(tls->output + tls->output_count, bytes, count);
  tls->output_count += count;
  *written = count;
  return 1;
}

static long memory_control(BIO *bio, int command, long number, void *pointer) {
  (void)bio, (void)number, (void)pointer;
  return command == BIO_CTRL_FLUSH;
}

static BIO_METHOD *memory_method;

static void make_memory_method(void) {
  memory_method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "simp memory");
  if (!memory_method) return;
  BIO_meth_set_read_ex(memory_method, memory_read);
  BIO_meth_set_write_ex(memory_method, memory_write);
  BIO_meth_set_ctrl(memory_method, memory_control);
}

// Contexts.

static SSL_CTX *make_context(const SSL_METHOD *method) {
  ERR_clear_error();
  SSL_CTX *context = SSL_CTX_new(method);
  if (!context) return NULL;
  SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
  SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION);
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE |
                                   SSL_OP_PRIORITIZE_CHACHA);
  // Without it an idle connection keeps 48 KiB of buffers.
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_timeout(context, 24 * 3600);
  if (SSL_CTX_set_ciphersuites(context,
                               "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256:TLS_AES_256_GCM_SHA384") != 1) {
    SSL_CTX_free(context);
    return NULL;
  }
  return context;
}

static int no_password(char *buffer, int room, int writing, void *was_asked) {
  (void)buffer, (void)room, (void)writing;
  *(int *)was_asked = 1;
  return -1;
}

static int use_chain(SSL_CTX *context, const uint8_t *pem, size_t count) {
  BIO *source = BIO_new_mem_buf(pem, (int)count);
  X509 *own = source ? PEM_read_bio_X509(source, NULL, NULL, (void *)"") : NULL;
  int outcome = SIMP_TLS_NO_CERTIFICATE;
  if (own) outcome = SSL_CTX_use_certificate(context, own) == 1 ? SIMP_TLS_GOOD : SIMP_TLS_REFUSED;
  X509_free(own);
  while (outcome == SIMP_TLS_GOOD) {
    X509 *next = PEM_read_bio_X509(source, NULL, NULL, (void *)"");
    if (!next) {
      // The end of the text is the one good reason.
      unsigned long error = ERR_peek_last_error();
      if (ERR_GET_LIB(error) == ERR_LIB_PEM && ERR_GET_REASON(error) == PEM_R_NO_START_LINE) ERR_clear_error();
      else outcome = SIMP_TLS_BAD_CHAIN;
      break;
    }
    if (SSL_CTX_add0_chain_cert(context, next) != 1) {
      X509_free(next);
      outcome = SIMP_TLS_BAD_CHAIN;
    }
  }
  BIO_free(source);
  return outcome;
}

static int use_key(SSL_CTX *context, const uint8_t *pem, size_t count) {
  BIO *source = BIO_new_mem_buf(pem, (int)count);
  int was_asked = 0;
  EVP_PKEY *key = source ? PEM_read_bio_PrivateKey(source, NULL, no_password, &was_asked) : NULL;
  BIO_free(source);
  if (!key) return was_asked ? SIMP_TLS_ENCRYPTED_KEY : SIMP_TLS_NO_KEY;
  // Checked first: OpenSSL would drop the certificate that does not fit.
  int fits = X509_check_private_key(SSL_CTX_get0_certificate(context), key) == 1;
  int outcome = !fits ? SIMP_TLS_KEY_MISMATCH : SSL_CTX_use_PrivateKey(context, key) == 1 ? SIMP_TLS_GOOD : SIMP_TLS_REFUSED;
  EVP_PKEY_free(key);
  return outcome;
}

/// Of the protocols a client offers one must be ours; who offers none is let in.
static int select_protocol(SSL *ssl, const unsigned char **out, unsigned char *count, const unsigned char *offered,
                           unsigned offered_count, void *unused) {
  (void)ssl, (void)unused;
  int found = SSL_select_next_proto((unsigned char **)out, count, protocol, sizeof protocol, offered, offered_count);
  return found == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

simp_tls_context *simp_tls_server_context(const uint8_t *certificates, size_t certificates_count, const uint8_t *key,
                                          size_t key_count, const uint8_t ticket_keys[80], int *outcome) {
  SSL_CTX *context = make_context(TLS_server_method());
  *outcome = SIMP_TLS_REFUSED;
  if (!context) return NULL;
  // Tickets only: what is to be resumed stays with the client.
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context, 1);
  SSL_CTX_set_max_early_data(context, 0);
  SSL_CTX_set_alpn_select_cb(context, select_protocol, NULL);
  *outcome = use_chain(context, certificates, certificates_count);
  if (*outcome == SIMP_TLS_GOOD) *outcome = use_key(context, key, key_count);
  if (*outcome == SIMP_TLS_GOOD && (SSL_CTX_set_session_id_context(context, protocol, sizeof protocol) != 1 ||
                                    SSL_CTX_set_tlsext_ticket_keys(context, (void *)ticket_keys, 80) != 1))
    *outcome = SIMP_TLS_REFUSED;
  if (*outcome == SIMP_TLS_GOOD) return (simp_tls_context *)context;
  SSL_CTX_free(context);
  return NULL;
}

static simp_tls *connection_of(X509_STORE_CTX *chain) {
  return SSL_get_app_data(X509_STORE_CTX_get_ex_data(chain, SSL_get_ex_data_X509_STORE_CTX_idx()));
}

/// Keeps what the text for a person needs: the certificates are gone when the handshake has failed.
static void refuse(simp_tls *tls, int code, X509 *leaf, X509 *refused) {
  if (tls->refusal) return;
  tls->refusal = code;
  if (leaf && X509_up_ref(leaf)) tls->refused_leaf = leaf;
  if (refused && X509_up_ref(refused)) tls->refused = refused;
}

static int look_at_verdict(int is_good, X509_STORE_CTX *chain) {
  if (!is_good)
    refuse(connection_of(chain), X509_STORE_CTX_get_error(chain), X509_STORE_CTX_get0_cert(chain),
           X509_STORE_CTX_get_current_cert(chain));
  return is_good;
}

/// Stands in for OpenSSL's own verification.
static int look_at_pin(X509_STORE_CTX *chain, void *unused) {
  (void)unused;
  simp_tls *tls = connection_of(chain);
  X509 *leaf = X509_STORE_CTX_get0_cert(chain);
  uint8_t pin[32];
  if (leaf && simp_certificate_pin((simp_certificate *)leaf, pin))
    for (size_t index = 0; index < tls->pin_count; index++)
      if (memcmp(pin, tls->pins + 32 * index, 32) == 0) return 1;
  refuse(tls, X509_V_ERR_APPLICATION_VERIFICATION, leaf, leaf);
  X509_STORE_CTX_set_error(chain, X509_V_ERR_APPLICATION_VERIFICATION);
  return 0;
}

static int keep_session(SSL *ssl, SSL_SESSION *session) {
  simp_tls *tls = SSL_get_app_data(ssl);
  SSL_SESSION_free(tls->session);
  tls->session = session;
  return 1;
}

static SSL_CTX *make_client_context(void) {
  SSL_CTX *context = make_context(TLS_client_method());
  if (!context) return NULL;
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
  SSL_CTX_sess_set_new_cb(context, keep_session);
  if (SSL_CTX_set_alpn_protos(context, protocol, sizeof protocol) == 0) return context; // 0 is success here
  SSL_CTX_free(context);
  return NULL;
}

simp_tls_context *simp_tls_pinning_context(void) {
  SSL_CTX *context = make_client_context();
  if (!context) return NULL;
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
  SSL_CTX_set_cert_verify_callback(context, look_at_pin, NULL);
  return (simp_tls_context *)context;
}

static int add_authorities(SSL_CTX *context, const uint8_t *pem, size_t count) {
  X509_STORE *store = SSL_CTX_get_cert_store(context);
  BIO *source = BIO_new_mem_buf(pem, (int)count);
  int added = 0;
  X509 *authority;
  while (source && (authority = PEM_read_bio_X509(source, NULL, NULL, (void *)""))) {
    added += X509_STORE_add_cert(store, authority) == 1;
    X509_free(authority);
  }
  BIO_free(source);
  ERR_clear_error();
  return added;
}

simp_tls_context *simp_tls_verifying_context(const uint8_t *authorities, size_t count, int *outcome) {
  SSL_CTX *context = make_client_context();
  *outcome = SIMP_TLS_REFUSED;
  if (!context) return NULL;
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, look_at_verdict);
  // A file may name a server's own certificate, or an authority in the middle, as well as a root.
  X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(context), X509_V_FLAG_PARTIAL_CHAIN);
  int done = authorities ? add_authorities(context, authorities, count) > 0
                         : SSL_CTX_set_default_verify_paths(context) == 1;
  ERR_clear_error();
  if (done) {
    *outcome = SIMP_TLS_GOOD;
    return (simp_tls_context *)context;
  }
  if (authorities) *outcome = SIMP_TLS_NO_CERTIFICATE;
  SSL_CTX_free(context);
  return NULL;
}

void simp_tls_context_free(simp_tls_context *context) { SSL_CTX_free(ctx(context)); }

// Connections.

static simp_tls *make(simp_tls_context *context) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, make_memory_method);
  ERR_clear_error();
  simp_tls *tls = calloc(1, sizeof *tls);
  if (!tls) return NULL;
  tls->alert = -1;
  tls->ssl = SSL_new(ctx(context));
  BIO *memory = memory_method ? BIO_new(memory_method) : NULL;
  if (!tls->ssl || !memory) {
    BIO_free(memory);
    simp_tls_free(tls);
    return NULL;
  }
  BIO_set_data(memory, tls);
  BIO_set_init(memory, 1);
  SSL_set_bio(tls->ssl, memory, memory);
  SSL_set_app_data(tls->ssl, tls);
  return tls;
}

simp_tls *simp_tls_serve(simp_tls_context *context) {
  simp_tls *tls = make(context);
  if (tls) SSL_set_accept_state(tls->ssl);
  return tls;
}

simp_tls *simp_tls_connect(simp_tls_context *context, const char *name, int is_address, const uint8_t *pins,
                           size_t pin_count, simp_tls_session *session) {
  simp_tls *tls = make(context);
  if (!tls) return NULL;
  SSL_set_connect_state(tls->ssl);
  SSL_set_hostflags(tls->ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  int done = is_address ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls->ssl), name) == 1
                        : SSL_set1_host(tls->ssl, name) == 1 && SSL_set_tlsext_host_name(tls->ssl, name) == 1;
  if (done && pin_count > 0) {
    tls->pins = malloc(32 * pin_count);
    if (tls->pins) memcpy(tls->pins, pins, 32 * pin_count);
    tls->pin_count = tls->pins ? pin_count : 0;
    done = tls->pins != NULL;
  }
  // A session that cannot be used costs a full handshake, no more.
  if (done && session) SSL_set_session(tls->ssl, (SSL_SESSION *)session);
  if (done) return tls;
  simp_tls_free(tls);
  return NULL;
}

void simp_tls_free(simp_tls *tls) {
  if (!tls) return;
  if (tls->ssl) {
    // A connection that breaks off is no reason to distrust its session: without this it could not be resumed.
    SSL_set_shutdown(tls->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
    SSL_free(tls->ssl);
  }
  SSL_SESSION_free(tls->session);
  X509_free(tls->refused_leaf);
  X509_free(tls->refused);
  free(tls->pins);
  free(tls->output);
  free(tls);
}

void simp_tls_feed(simp_tls *tls, const uint8_t *bytes, size_t count) {
  tls->input = bytes;
  tls->input_count = count;
}

size_t simp_tls_unfeed(simp_tls *tls) {
  size_t left = tls->input_count;
  tls->input = NULL;
  tls->input_count = 0;
  return left;
}

/// What a call that returned `result` (not 1) means; errors must not stay in the thread's queue for the next call.
static int judge(simp_tls *tls, int result) {
  int kind = SSL_get_error(tls->ssl, result);
  if (kind == SSL_ERROR_WANT_READ) return SIMP_TLS_WANTS_BYTES;
  if (kind == SSL_ERROR_ZERO_RETURN) return SIMP_TLS_ENDED;
  unsigned long error = ERR_peek_error();
  if (!tls->reason_text) {
    tls->reason = ERR_GET_REASON(error);
    tls->reason_text = ERR_reason_error_string(error);
    if (ERR_GET_LIB(error) == ERR_LIB_SSL && tls->reason > SSL_AD_REASON_OFFSET)
      tls->alert = tls->reason - SSL_AD_REASON_OFFSET;
  }
  ERR_clear_error();
  return SIMP_TLS_FAILED;
}

int simp_tls_handshake(simp_tls *tls) {
  ERR_clear_error();
  int result = SSL_do_handshake(tls->ssl);
  if (result == 1) return SIMP_TLS_DONE;
  int outcome = judge(tls, result);
  return outcome == SIMP_TLS_ENDED ? SIMP_TLS_FAILED : outcome;
}

int64_t simp_tls_read(simp_tls *tls, uint8_t *out, size_t room) {
  ERR_clear_error();
  size_t count = 0;
  int result = SSL_read_ex(tls->ssl, out, room, &count);
  return result == 1 ? (int64_t)count : judge(tls, result);
}

int simp_tls_write(simp_tls *tls, const uint8_t *bytes, size_t count) {
  ERR_clear_error();
  size_t written = 0;
  int result = SSL_write_ex(tls->ssl, bytes, count, &written);
  if (result == 1 && written == count) return SIMP_TLS_DONE;
  judge(tls, result);
  return SIMP_TLS_FAILED;
}

void simp_tls_end(simp_tls *tls) {
  ERR_clear_error();
  SSL_shutdown(tls->ssl);
  ERR_clear_error();
}

size_t simp_tls_output(simp_tls *tls, const uint8_t **bytes) {
  *bytes = tls->output;
  return tls->output_count;
}

void simp_tls_output_taken(simp_tls *tls) {
  tls->output_count = 0;
  // Most connections are idle most of the time.
  if (tls->output_room > 4096) {
    free(tls->output);
    tls->output = NULL;
    tls->output_room = 0;
  }
}

simp_tls_session *simp_tls_take_session(simp_tls *tls) {
  SSL_SESSION *session = tls->session;
  tls->session = NULL;
  return (simp_tls_session *)session;
}

void simp_tls_session_free(simp_tls_session *session) { SSL_SESSION_free((SSL_SESSION *)session); }

int simp_tls_is_resumed(const simp_tls *tls) { return SSL_session_reused(tls->ssl); }

const char *simp_tls_cipher(const simp_tls *tls) { return SSL_get_cipher_name(tls->ssl); }

size_t simp_tls_protocol(const simp_tls *tls, char *out, size_t room) {
  const unsigned char *text = NULL;
  unsigned count = 0;
  SSL_get0_alpn_selected(tls->ssl, &text, &count);
  if (count > room) return 0;
  if (count > 0) memcpy(out, text, count);
  return count;
}

const simp_certificate *simp_tls_peer(const simp_tls *tls) {
  return (const simp_certificate *)SSL_get0_peer_certificate(tls->ssl);
}

int simp_tls_refusal(const simp_tls *tls) { return tls->refusal; }
const simp_certificate *simp_tls_refused_leaf(const simp_tls *tls) { return (simp_certificate *)tls->refused_leaf; }
const simp_certificate *simp_tls_refused(const simp_tls *tls) { return (simp_certificate *)tls->refused; }
int simp_tls_alert(const simp_tls *tls) { return tls->alert; }

int simp_tls_is_other_version(const simp_tls *tls) {
  return tls->reason == SSL_R_UNSUPPORTED_PROTOCOL || tls->alert == SSL_AD_PROTOCOL_VERSION ||
         tls->reason == SSL_R_WRONG_SSL_VERSION || tls->reason == SSL_R_NO_PROTOCOLS_AVAILABLE;
}

int simp_tls_no_shared_protocol(const simp_tls *tls) { return tls->reason == SSL_R_NO_APPLICATION_PROTOCOL; }
const char *simp_tls_reason(const simp_tls *tls) { return tls->reason_text ? tls->reason_text : "no reason given"; }
const char *simp_tls_refusal_text(int code) { return X509_verify_cert_error_string(code); }
