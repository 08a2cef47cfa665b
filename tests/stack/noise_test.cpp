#include "stack/secure/noise.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "hex.h"
#include "tests/base/temporary_folder.h"

namespace braid::stack {
namespace {

constexpr CipherKind kBoth[] = {CipherKind::kAesGcm, CipherKind::kChaChaPoly};

struct Keyed {
  Aead seal{Aead::Use::kSeal};
  Aead open{Aead::Use::kOpen};
  Keyed(CipherKind kind, const Noise::Keys& keys) {
    seal.set_key(kind, keys.send);
    open.set_key(kind, keys.receive);
  }
  Bytes sealed(std::uint64_t nonce, const Bytes& associated, const Bytes& text) {
    Bytes out = text;
    out.resize(text.size() + Aead::kTagBytes);
    seal.seal(nonce, associated, MutableBytes(out).first(text.size()), out.data() + text.size());
    return out;
  }
};

// Of the test vectors of github.com/flynn/noise 1.0.0 (vectors.txt), without and with payloads and prologue.
TEST(Noise, HandshakeIsThatOfPublishedVectors) {
  const KeyBytes first = key_from_hex("202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f");
  const KeyBytes second = key_from_hex("4142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f60");
  const KeyBytes psk = key_from_hex("2176657279736563726574766572797365637265747665727973656372657421");
  struct Vector {
    const char *prologue, *payloads[2], *messages[2];
  };
  for (const Vector& v :
       {Vector{"",
               {"", ""},
               {"358072d6365880d1aeea329adf9121383851ed21a28e3b75e965d0d2cd1662544833316e6c21d899aec6"
                "c5f0c6e85e13",
                "64b101b1d0be5a8704bd078f9895001fc03e8e9f9522f188dd128d9846d48466d3ec4419885d86e6d731"
                "0fb1d2263afd"}},
        Vector{"",
               {"746573745f6d73675f30", "746573745f6d73675f31"},
               {"358072d6365880d1aeea329adf9121383851ed21a28e3b75e965d0d2cd166254d2f8054fcaf80f347006"
                "07e4422560b0626b1bc69e65290f6437",
                "64b101b1d0be5a8704bd078f9895001fc03e8e9f9522f188dd128d9846d48466e21a3177614fce09f014"
                "bde7e996fb8c8300777068e6fd2aa7c4"}},
        Vector{"6e6f74736563726574",
               {"", ""},
               {"358072d6365880d1aeea329adf9121383851ed21a28e3b75e965d0d2cd16625486959ba2f588031f633a"
                "6c0e54a14ae5",
                "64b101b1d0be5a8704bd078f9895001fc03e8e9f9522f188dd128d9846d48466c8783e80be055a8f51e3"
                "2418393af7cd"}}}) {
    Noise initiator(Noise::Role::kInitiator, CipherKind::kAesGcm, from_hex(v.prologue), psk, first);
    Noise responder(Noise::Role::kResponder, CipherKind::kAesGcm, from_hex(v.prologue), psk, second);
    for (int i = 0; i < 2; ++i) {
      const Bytes payload = from_hex(v.payloads[i]);
      Bytes message(payload.size() + Noise::kOverheadBytes), read(payload.size());
      (i == 0 ? initiator : responder).write(payload, message);
      EXPECT_EQ(to_hex(message), v.messages[i]);
      ASSERT_TRUE((i == 0 ? responder : initiator).read(message, read));
      EXPECT_EQ(read, payload);
    }
    ASSERT_TRUE(initiator.complete() && responder.complete());
    EXPECT_EQ(initiator.hash(), responder.hash());
    Keyed one(CipherKind::kAesGcm, initiator.split()), other(CipherKind::kAesGcm, responder.split());
    EXPECT_EQ(to_hex(one.sealed(0, {}, from_hex("79656c6c6f777375626d6172696e65"))),
              "6a7b199c69a64cc2ea3c556cf17489fd2ae452d3f3c2a0871cebd327fc31c6");
    EXPECT_EQ(to_hex(other.sealed(0, {}, from_hex("7375626d6172696e6579656c6c6f77"))),
              "e58d43e0c69d8c15df523586b2c58ca40cb0472b5b3775f1cca807fee28a71");
  }
}

struct Ends {
  KeyBytes psk = key_from_hex(std::string(64, '1'));
  KeyBytes other_psk = psk;
  Bytes prologue = bytes("prologue");
  Bytes other_prologue = prologue;
  CipherKind cipher = CipherKind::kAesGcm;
  CipherKind other_cipher = CipherKind::kAesGcm;

  // Whether the responder takes the first message, and the initiator the second; `change` may change them.
  template <class F>
  std::pair<bool, bool> run(F&& change) const {
    Noise initiator(Noise::Role::kInitiator, cipher, prologue, psk, key_from_hex(std::string(64, '2')));
    Noise responder(Noise::Role::kResponder, other_cipher, other_prologue, other_psk,
                    key_from_hex(std::string(64, '3')));
    Bytes message(Noise::kOverheadBytes);
    initiator.write({}, message);
    change(0, message);
    if (!responder.read(message, {})) return {false, false};
    responder.write({}, message);
    change(1, message);
    if (!initiator.read(message, {})) return {true, false};
    EXPECT_EQ(initiator.split().send, responder.split().receive);
    EXPECT_EQ(initiator.split().receive, responder.split().send);
    EXPECT_NE(initiator.split().send, initiator.split().receive);
    return {true, true};
  }
};
constexpr auto kUnchanged = [](int, Bytes&) {};

TEST(Noise, EndsWithTheSameSecretAgreeAndOthersDoNot) {
  for (const CipherKind kind : kBoth) {
    Ends ends;
    ends.cipher = ends.other_cipher = kind;
    EXPECT_EQ(ends.run(kUnchanged), (std::pair{true, true}));
    ends.other_psk[31] ^= std::byte{1};
    EXPECT_EQ(ends.run(kUnchanged), (std::pair{false, false}));
    ends = {.other_prologue = bytes("prologuE")};
    EXPECT_EQ(ends.run(kUnchanged), (std::pair{false, false}));
    ends = {.other_cipher = CipherKind::kChaChaPoly};
    EXPECT_EQ(ends.run(kUnchanged), (std::pair{false, false}));
  }
}

TEST(Noise, EveryFlippedBitOfAHandshakeIsDetected) {
  for (int which = 0; which < 2; ++which) {
    for (std::size_t bit = 0; bit < 8 * Noise::kOverheadBytes; ++bit) {
      const auto ends = Ends().run([&](int i, Bytes& message) {
        if (i == which) message[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
      });
      EXPECT_EQ(ends, (std::pair{which == 1, false})) << which << " " << bit;
    }
  }
}

TEST(Noise, KeyOfLowOrderIsRefused) {
  const auto ends = Ends().run([](int, Bytes& message) { std::fill_n(message.begin(), 32, std::byte{0}); });
  EXPECT_EQ(ends, (std::pair{false, false}));
}

// ---------------------------------------------------------------- another implementation

bool runs(const std::string& command) {
  return std::system((command + " >/dev/null 2>&1").c_str()) == 0;  // NOLINT(cert-env33-c)
}

// The program noise_peer, and lines to and from it.
class Peer {
 public:
  Peer(const std::string& program, const std::vector<std::string>& arguments) {
    int in[2], out[2];
    CHECK(pipe(in) == 0 && pipe(out) == 0);
    child_ = fork();
    CHECK(child_ >= 0);
    if (child_ == 0) {
      dup2(in[0], 0);
      dup2(out[1], 1);
      for (const int fd : {in[0], in[1], out[0], out[1]}) close(fd);
      std::vector<char*> argv{const_cast<char*>(program.c_str())};
      for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
      argv.push_back(nullptr);
      execv(program.c_str(), argv.data());
      _exit(127);
    }
    close(in[0]);
    close(out[1]);
    to_ = in[1];
    from_ = out[0];
  }
  ~Peer() {
    close(to_);
    close(from_);
    waitpid(child_, nullptr, 0);
  }
  void write(ByteView message) const {
    const std::string line = to_hex(message) + "\n";
    ASSERT_EQ(::write(to_, line.data(), line.size()), static_cast<ssize_t>(line.size()));
  }
  Bytes read() const {
    std::string line;
    for (char c = 0; ::read(from_, &c, 1) == 1 && c != '\n';) line += c;
    EXPECT_EQ(line.find_first_not_of("0123456789abcdef"), std::string::npos) << line;
    return from_hex(line);
  }

 private:
  pid_t child_ = -1;
  int to_ = -1;
  int from_ = -1;
};

TEST(Noise, UnderstandsAnotherImplementationInEitherRole) {
  if (!runs("go version"))
    GTEST_SKIP() << "there is no Go: apt-get install golang-go golang-github-flynn-noise-dev";
  if (!std::filesystem::exists("/usr/share/gocode/src/github.com/flynn/noise"))
    GTEST_SKIP() << "apt-get install golang-github-flynn-noise-dev";
  const TemporaryFolder folder;
  const std::string program = folder / "noise_peer";
  const std::string build = "GO111MODULE=off GOPATH=/usr/share/gocode GOCACHE=" + folder / "cache" +
                            " GOFLAGS=-p=2 go build -o " + program + " " NOISE_PEER_SOURCE;
  ASSERT_TRUE(runs(build)) << build;
  const KeyBytes psk = key_from_hex(std::string(64, '9'));
  const Bytes prologue = bytes("both ends know it"), header = bytes("header");
  for (const CipherKind kind : kBoth) {
    for (const bool initiator : {true, false}) {
      SCOPED_TRACE(testing::Message() << static_cast<int>(kind) << " " << initiator);
      const Peer peer(program,
                      {initiator ? "responder" : "initiator",
                       kind == CipherKind::kAesGcm ? "AESGCM" : "ChaChaPoly", to_hex(psk), to_hex(prologue)});
      Noise noise(initiator ? Noise::Role::kInitiator : Noise::Role::kResponder, kind, prologue, psk,
                  sha256({bytes("an ephemeral key")}));
      Bytes message(Noise::kOverheadBytes);
      for (int i = 0; i < 2; ++i) {
        if ((i == 0) == initiator) {
          noise.write({}, message);
          peer.write(message);
        } else {
          message = peer.read();
          ASSERT_EQ(message.size(), Noise::kOverheadBytes);
          ASSERT_TRUE(noise.read(message, {}));
        }
      }
      Keyed keys(kind, noise.split());
      std::uint64_t nonce = 0;
      for (const char* expected : {"from the other one", "and with its next key"}) {
        if (nonce > 0) keys.open.set_key(kind, keys.open.next_key());
        Bytes sealed = peer.read();
        ASSERT_EQ(sealed.size(), bytes(expected).size() + Aead::kTagBytes);
        Bytes text(bytes(expected).size());
        EXPECT_TRUE(keys.open.open(nonce++, header, ByteView(sealed).first(text.size()),
                                   sealed.data() + text.size(), text.data()));
        EXPECT_EQ(text, bytes(expected));
      }
      nonce = 0;
      for (const char* text : {"to the other one", "with the next key"}) {
        if (nonce > 0) keys.seal.set_key(kind, keys.seal.next_key());
        peer.write(keys.sealed(nonce++, header, bytes(text)));
        EXPECT_EQ(peer.read(), bytes(text));
      }
    }
  }
}

}  // namespace
}  // namespace braid::stack
