// Requests to a node's control plane, as bytes that any process of the user may write into its socket, from
// several clients that come and go. Nothing crashes; answers are well formed; when all clients are gone nothing
// of them is left, and the node serves the next one.
#include <string_view>
#include <vector>

#include "tests/fuzz/input.h"
#include "tests/fuzz/mutator.h"
#include "tests/fuzz/nodes.h"

namespace braid {
namespace {

using fuzz::Input;
using fuzz::Nodes;
namespace control = proxy::control;

control::Message message_of(Input& in) {
  control::Message m;
  const ByteView raw = in.some_bytes(sizeof m);
  std::memcpy(static_cast<void*>(&m), raw.data(), raw.size());
  if (in.below(16) != 0) {
    m.magic = control::kMagic;
    m.version = control::kVersion;
    m.kind = static_cast<control::Kind>(in.below(9));
  }
  // Numbers that are often valid.
  switch (m.kind) {
    case control::Kind::kAttach:
      if (in.below(4) != 0)
        m.attach = {in.below(4), 32768u << in.below(4), std::uint64_t{2048} << in.below(8)};
      break;
    case control::Kind::kListen:
      if (in.below(4) != 0)
        m.listen = {in.below(4), in.below(2), 4096u << in.below(5), in.below(2), in.below(6)};
      break;
    case control::Kind::kConnect:
      if (in.below(4) != 0)
        m.connect = {in.below(3), in.below(4),   in.below(2), 4096u << in.below(5),
                     in.below(2), in.below(200), in.below(6)};
      break;
    case control::Kind::kClose:
      if (in.below(4) != 0) m.close = {in.truth() ? in.below(4) : 65536 + in.below(8)};
      break;
    case control::Kind::kConnectMachine:  // the other node, or an address without one
      if (in.below(4) != 0) {
        m.connect_machine = {
            {0, in.below(4), in.below(2), 4096u << in.below(5), in.below(2), in.below(200), in.below(6)},
            {0x0a620001 + in.below(3), 0x0a620001 + in.below(3)},
            static_cast<std::uint16_t>(in.below(3)),
            static_cast<std::uint16_t>(in.below(8) == 0 ? 7600 : 7699)};
      }
      break;
    default:
      break;
  }
  return m;
}

// Leaves out clients of several GiB, whose page tables alone would take most of the time.
bool affordable(const control::Message& m) {
  return m.kind != control::Kind::kAttach ||
         (m.attach.send_bytes <= (1u << 20) && m.attach.receive_bytes <= (1u << 22) &&
          m.attach.endpoints <= 4);
}

class ControlWorld {
 public:
  void run(Input& in) {
    while (!in.empty()) {
      const unsigned which = in.below(4);
      switch (in.below(6)) {
        case 0:
          if (clients_.size() < 4) clients_.push_back({in.below(2), 0});
          if (!clients_.empty() && clients_.back().id == 0)
            clients_.back().id = nodes_.node(clients_.back().node).add_client();
          break;
        case 1:
          if (which < clients_.size()) leave(which);
          break;
        case 2:
          nodes_.turn(Duration::us(in.number<std::uint16_t>()));
          break;
        case 3:
          drain();
          break;
        default: {
          if (which >= clients_.size()) break;
          const control::Message m = message_of(in);
          if (affordable(m))
            nodes_.node(clients_[which].node).on_request(nodes_.now(), clients_[which].id, m);
          break;
        }
      }
    }
    while (!clients_.empty()) leave(0);
    CHECK(nodes_.until([&] { return nothing_left(); }, 5_s));
    drain();
    fuzz::RawClient next(nodes_, 0);
  }

 private:
  struct Known {
    unsigned node;
    proxy::Node::ClientId id;
  };

  void leave(std::size_t which) {
    nodes_.node(clients_[which].node).client_gone(clients_[which].id);
    gone_.push_back(clients_[which]);
    clients_.erase(clients_.begin() + static_cast<std::ptrdiff_t>(which));
  }
  bool nothing_left() {
    for (const Known& k : gone_)
      if (nodes_.node(k.node).has_client(k.id)) return false;
    return true;
  }
  void drain() {
    for (unsigned n : {0u, 1u}) {
      while (const auto out = nodes_.node(n).poll_outbound()) {
        fuzz::digest(static_cast<std::uint64_t>(out->message.kind));
        CHECK_EQ(out->message.magic, control::kMagic);
        CHECK_EQ(out->message.version, control::kVersion);
        CHECK_GE(static_cast<std::uint32_t>(out->message.kind), 100u);
        if (out->message.kind == control::Kind::kRefused)
          CHECK_LT(::strnlen(out->message.refused.text, sizeof out->message.refused.text),
                   sizeof out->message.refused.text);
        if (out->message.kind == control::Kind::kAttached) {
          CHECK_EQ(out->fd, -1);  // its memory is of this process
          CHECK_EQ(out->message.attached.geometry.problem(), std::string_view());
        }
      }
      while (nodes_.node(n).poll_expelled()) {
      }
    }
  }

  Nodes nodes_;
  std::vector<Known> clients_;
  std::vector<Known> gone_;
};

// As run() and message_of() read it: a request that is kept as it is.
std::vector<std::byte> make_operation(fuzz::Draw& draw) {
  fuzz::Writer w;
  if (draw.one_in(4)) w.byte(0).byte(0).byte(draw.below(2));  // one more client
  const control::Message request = fuzz::make_request(draw);
  w.byte(draw.below(4)).byte(4);
  w.some_bytes(ByteView(reinterpret_cast<const std::byte*>(&request), sizeof request));
  return w.byte(0).byte(0).take();
}

}  // namespace
}  // namespace braid

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace braid;
  fuzz::Input in(data, std::min<std::size_t>(size, 2048));
  fuzz::with_restored<ControlWorld>([&](ControlWorld& world) { world.run(in); });
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  return braid::fuzz::custom_mutation(data, size, max_size, seed, braid::make_operation);
}
