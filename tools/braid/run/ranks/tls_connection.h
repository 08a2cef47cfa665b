// A connection between two processes of which each knows the other's certificate: TLS 1.3 (RFC 8446) with certificates of both, by OpenSSL. A
// certificate says nothing but its key, and only the one that is expected is accepted. Used by one thread; no call blocks.
#pragma once

#include <poll.h>

#include <memory>
#include <string>

#include "base/result.h"
#include "tools/braid/process/descriptor.h"

struct ssl_st;
struct ssl_ctx_st;

namespace braid::cli {

// Of one process, for one run. The key never leaves its host.
struct TlsIdentity {
  std::string key;          // DER
  std::string certificate;  // DER
};
Result<TlsIdentity> make_tls_identity();

class TlsConnection {
 public:
  enum class Side { kConnects, kAccepts };
  enum class Step { kDone, kWaits, kEnded, kFailed };  // kEnded: the other end has said that it says no more

  // `socket`: connected, or about to be, and non-blocking. The error: what OpenSSL says.
  static Result<TlsConnection> create(Descriptor socket, Side side, const TlsIdentity& own,
                                      const std::string& certificate_of_peer);
  TlsConnection(TlsConnection&&) noexcept;
  TlsConnection& operator=(TlsConnection&&) = delete;
  ~TlsConnection();

  // Until it returns kDone, nothing is sent or received.
  Step greet();
  // Appends what has come to `to`.
  Step read(std::string& to);
  // Takes from the beginning of `from` what can be sent now; kDone: all of it.
  Step write(std::string& from);
  // Tells the other end that no more comes.
  void say_end();

  int fd() const { return socket_.get(); }
  // What poll() must wait for, after a step that returned kWaits.
  short events() const { return events_; }
  // Of the step that has failed.
  const std::string& problem() const { return problem_; }

 private:
  struct Free {
    void operator()(ssl_st* tls) const;
    void operator()(ssl_ctx_st* context) const;
  };
  TlsConnection(Descriptor socket, std::unique_ptr<std::string> peer);
  Step step_of(int result);

  Descriptor socket_;
  std::unique_ptr<std::string> peer_;  // the certificate that is expected: OpenSSL has its address
  std::unique_ptr<ssl_ctx_st, Free> context_;
  std::unique_ptr<ssl_st, Free> tls_;
  short events_ = POLLIN;
  std::string problem_;
};

}  // namespace braid::cli
