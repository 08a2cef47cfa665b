#include "tools/braid/run/ranks/tls_connection.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tools/braid/process/forget.h"

namespace braid::cli {
namespace {

constexpr const char* kKeyType = "ED25519";
// A certificate is read by its exact bytes only, never by its dates; the library wants some.
constexpr long kDaySeconds = 24 * 60 * 60;

template <auto Function>
struct FreeBy {
  template <class T>
  void operator()(T* object) const {
    Function(object);
  }
};
using Key = std::unique_ptr<EVP_PKEY, FreeBy<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, FreeBy<X509_free>>;

std::string why() {
  char text[256] = "no reason is given";
  if (const unsigned long problem = ::ERR_get_error(); problem != 0)
    ::ERR_error_string_n(problem, text, sizeof text);
  ::ERR_clear_error();
  return text;
}

template <class T>
std::string der_of(const T* object, int (*encode)(const T*, unsigned char**)) {
  unsigned char* bytes = nullptr;
  const int length = encode(object, &bytes);
  std::string text(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(std::max(length, 0)));
  ::OPENSSL_free(bytes);
  return text;
}

const unsigned char* bytes_of_text(const std::string& text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

// In place of chains, names and dates.
int is_expected(X509_STORE_CTX* presented, void* expected) {
  const X509* const certificate = ::X509_STORE_CTX_get0_cert(presented);
  return certificate != nullptr && der_of(certificate, ::i2d_X509) == *static_cast<std::string*>(expected)
             ? 1
             : 0;
}

}  // namespace

Result<TlsIdentity> make_tls_identity() {
  const Key key(::EVP_PKEY_Q_keygen(nullptr, nullptr, kKeyType));
  const Certificate certificate(::X509_new());
  if (!key || !certificate || ::X509_set_version(certificate.get(), X509_VERSION_3) != 1 ||
      ::ASN1_INTEGER_set(::X509_get_serialNumber(certificate.get()), 1) != 1 ||
      ::X509_gmtime_adj(::X509_getm_notBefore(certificate.get()), -kDaySeconds) == nullptr ||
      ::X509_gmtime_adj(::X509_getm_notAfter(certificate.get()), 365 * kDaySeconds) == nullptr ||
      ::X509_set_pubkey(certificate.get(), key.get()) != 1 ||
      ::X509_sign(certificate.get(), key.get(), nullptr) == 0)
    return error("OpenSSL makes no key: {}", why());
  return TlsIdentity{der_of<EVP_PKEY>(key.get(), ::i2d_PrivateKey),
                     der_of<X509>(certificate.get(), ::i2d_X509)};
}

void TlsConnection::Free::operator()(ssl_st* tls) const {
  ::SSL_free(tls);
}
void TlsConnection::Free::operator()(ssl_ctx_st* context) const {
  ::SSL_CTX_free(context);
}

TlsConnection::TlsConnection(Descriptor socket, std::unique_ptr<std::string> peer)
    : socket_(std::move(socket)), peer_(std::move(peer)) {}
TlsConnection::TlsConnection(TlsConnection&&) noexcept = default;
TlsConnection::~TlsConnection() = default;

Result<TlsConnection> TlsConnection::create(Descriptor socket, Side side, const TlsIdentity& own,
                                            const std::string& certificate_of_peer) {
  TlsConnection made(std::move(socket), std::make_unique<std::string>(certificate_of_peer));
  made.context_.reset(::SSL_CTX_new(::TLS_method()));
  SSL_CTX* const context = made.context_.get();
  const unsigned char* key_bytes = bytes_of_text(own.key);
  const Key key(::d2i_AutoPrivateKey(nullptr, &key_bytes, static_cast<long>(own.key.size())));
  if (context == nullptr || !key || ::SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1 ||
      ::SSL_CTX_use_certificate_ASN1(context, static_cast<int>(own.certificate.size()),
                                     bytes_of_text(own.certificate)) != 1 ||
      ::SSL_CTX_use_PrivateKey(context, key.get()) != 1)
    return error("OpenSSL: {}", why());
  ::SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  ::SSL_CTX_set_cert_verify_callback(context, is_expected, made.peer_.get());
  // A session is not resumed, which would pass by the certificates.
  ::SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  ::SSL_CTX_set_num_tickets(context, 0);
  // OpenSSL overwrites its copy of what SSL_read() returns.
  ::SSL_CTX_set_options(context, SSL_OP_CLEANSE_PLAINTEXT);
  ::SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  made.tls_.reset(::SSL_new(context));
  if (!made.tls_ || ::SSL_set_fd(made.tls_.get(), made.fd()) != 1) return error("OpenSSL: {}", why());
  if (side == Side::kConnects) {
    ::SSL_set_connect_state(made.tls_.get());
    made.events_ = POLLOUT;
  } else {
    ::SSL_set_accept_state(made.tls_.get());
  }
  return made;
}

TlsConnection::Step TlsConnection::step_of(int result) {
  const int problem = errno;
  switch (::SSL_get_error(tls_.get(), result)) {
    case SSL_ERROR_NONE:
      return Step::kDone;
    case SSL_ERROR_WANT_READ:
      events_ = POLLIN;
      return Step::kWaits;
    case SSL_ERROR_WANT_WRITE:
      events_ = POLLOUT;
      return Step::kWaits;
    case SSL_ERROR_ZERO_RETURN:
      return Step::kEnded;
    case SSL_ERROR_SYSCALL:
      problem_ = problem != 0 ? ::strerror(problem) : "it was closed";
      return Step::kFailed;
    default:
      problem_ = why();
      return Step::kFailed;
  }
}

TlsConnection::Step TlsConnection::greet() {
  ::ERR_clear_error();
  errno = 0;
  return step_of(::SSL_do_handshake(tls_.get()));
}

TlsConnection::Step TlsConnection::read(std::string& to) {
  char bytes[16384];
  ::ERR_clear_error();
  errno = 0;
  const int n = ::SSL_read(tls_.get(), bytes, sizeof bytes);
  if (n > 0) to.append(bytes, static_cast<std::size_t>(n));
  forget(bytes);
  return step_of(n);
}

TlsConnection::Step TlsConnection::write(std::string& from) {
  std::size_t taken = 0;
  Step step = Step::kDone;
  while (step == Step::kDone && taken < from.size()) {
    std::size_t n = 0;
    ::ERR_clear_error();
    errno = 0;
    step = step_of(::SSL_write_ex(tls_.get(), from.data() + taken, from.size() - taken, &n));
    if (step == Step::kDone) taken += n;
  }
  forget_front(from, taken);
  return step;
}

void TlsConnection::say_end() {
  ::ERR_clear_error();
  (void)::SSL_shutdown(tls_.get());
}

}  // namespace braid::cli
