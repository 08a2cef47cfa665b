// A client that writes what the input chooses into the memory that it shares with its node: descriptors,
// indices, cells, doorbell, anything; at both ends of a connection. The node does not crash, reaches no other
// client's memory, disconnects a client that violates the protocol, and serves another client beside it.
#include <memory>
#include <vector>

#include "convergence/position.h"
#include "convergence/train.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/mutator.h"
#include "tests/fuzz/nodes.h"

namespace braid {
namespace {

using fuzz::Input;
using fuzz::Nodes;
using fuzz::RawClient;
namespace control = proxy::control;

constexpr std::uint32_t kPort = 9;
constexpr std::uint32_t kWindow = 16384;

class ClientWorld {
 public:
  ClientWorld() {
    // The bystander's memory is filled with a pattern that must stay.
    bystander_ = std::make_unique<RawClient>(nodes_, 0);
    const std::uint64_t at = bystander_->geometry().receive_buffers();
    bystander_bytes_ = bystander_->geometry().total_bytes() - at;
    std::memset(bystander_->memory() + at, 0x77, bystander_bytes_);

    clients_[0] = std::make_unique<RawClient>(nodes_, 0);
    clients_[1] = std::make_unique<RawClient>(nodes_, 1);
    control::Message listen;
    listen.kind = control::Kind::kListen;
    listen.listen = {kPort, 0, kWindow, 1, stack::kMessages.value()};
    CHECK(clients_[1]->ask(listen).kind == control::Kind::kOk);
    control::Message connect;
    connect.kind = control::Kind::kConnect;
    connect.connect = {1, kPort, 0, kWindow, 1, 1000, stack::kMessages.value()};
    const control::Message reply = clients_[0]->ask(connect);
    CHECK(reply.kind == control::Kind::kOpened);
    ends_[0] = reply.opened;
    CHECK(nodes_.until([&] {
      const auto out = nodes_.node(1).poll_outbound(clients_[1]->id());
      if (!out || out->message.kind != control::Kind::kOpened) return false;
      ends_[1] = out->message.opened;
      return true;
    }));
  }

  void run(Input& in) {
    while (!in.empty()) {
      const int i = in.truth() ? 1 : 0;
      switch (in.below(8)) {
        case 0:
          push(i, in);
          break;
        case 1:
          push_train(i, in);
          break;
        case 2:
          jump_tail(i, in);
          break;
        case 3:
          write_anywhere(i, in);
          break;
        case 4:
          write_cell(i, in);
          break;
        case 5:
          write_arrivals(i, in);
          break;
        case 6:
          nodes_.turn(Duration::us(in.number<std::uint16_t>()));
          break;
        case 7:
          close(i, in);
          break;
      }
      nodes_.turn();
    }
    for (int k = 0; k < 50; ++k) nodes_.turn();
    for (auto& client : clients_) client.reset();
    check_bystander();
    bystander_.reset();
    fuzz::digest(static_cast<std::uint64_t>(nodes_.now().ns()));
  }

 private:
  // A correct descriptor, but for what the input changes.
  void push(int i, Input& in) {
    proxy::SendDescriptor d{};
    d.source_port = ends_[i].port;
    d.bytes = in.below(3) == 0 ? in.number<std::uint16_t>() : static_cast<std::uint16_t>(in.below(200));
    d.message_bytes = d.bytes;
    d.position = position_[i];
    d.message = d.position;
    d.data_offset = 64 * in.below(16);
    d.kind = static_cast<std::uint8_t>(in.below(4) == 0 ? in.below(4) : 1);
    if (in.truth()) fuzz::mutate(in, MutableBytes(reinterpret_cast<std::byte*>(&d), sizeof d));
    position_[i] += convergence::granules_of(d.bytes);
    write_entry(i, &d);
    publish(i);
  }
  // A correct train, but for what the input changes; its lengths are the next entry, or follow later, or never.
  void push_train(int i, Input& in) {
    proxy::SendDescriptor d{};
    stack::TrainLengths lengths{};
    d.messages = static_cast<std::uint8_t>(2 + in.below(stack::kMaxTrainMessages - 1));
    d.source_port = ends_[i].port;
    d.position = position_[i];
    d.message = d.position;
    d.data_offset = 64 * in.below(16);
    d.kind = static_cast<std::uint8_t>(stack::RecordKind::kMessage);
    for (unsigned k = 0; k < d.messages; ++k) {
      lengths[k] = in.byte();
      d.bytes = static_cast<std::uint16_t>(d.bytes + stack::train_aligned(lengths[k]));
    }
    d.message_bytes = d.bytes;
    position_[i] += convergence::train_granules(lengths, d.messages);
    if (in.truth()) fuzz::mutate(in, MutableBytes(reinterpret_cast<std::byte*>(&d), sizeof d));
    if (in.truth()) fuzz::mutate(in, MutableBytes(reinterpret_cast<std::byte*>(&lengths), sizeof lengths));
    write_entry(i, &d);
    const std::uint32_t table = in.below(8);
    if (table == 0) publish(i);
    if (table == 1) return publish(i);
    write_entry(i, &lengths);
    publish(i);
  }
  // The ring's next entry, which is not published.
  void write_entry(int i, const void* entry) {
    RawClient& client = *clients_[i];
    std::byte* const ring = client.memory() + client.geometry().send_ring(0, 0);
    const std::uint32_t mask = client.geometry().send_descriptors - 1;
    std::memcpy(ring + sizeof(RingControl) + sizeof(proxy::SendDescriptor) * (tail_[i]++ & mask), entry,
                sizeof(proxy::SendDescriptor));
  }
  void publish(int i) {
    RawClient& client = *clients_[i];
    auto* const ring = reinterpret_cast<RingControl*>(client.memory() + client.geometry().send_ring(0, 0));
    ring->tail.store(tail_[i], std::memory_order_release);
  }
  void jump_tail(int i, Input& in) {
    RawClient& client = *clients_[i];
    auto* const ring = reinterpret_cast<RingControl*>(client.memory() + client.geometry().send_ring(0, 0));
    tail_[i] += in.truth() ? in.below(8) : in.number<std::uint32_t>();
    ring->tail.store(tail_[i], std::memory_order_release);
    if (in.truth()) ring->head.store(in.number<std::uint32_t>(), std::memory_order_release);
  }
  void write_anywhere(int i, Input& in) {
    RawClient& client = *clients_[i];
    // Mostly before the receive buffers, where every byte has a meaning.
    const std::uint64_t end =
        in.below(4) == 0 ? client.geometry().total_bytes() : client.geometry().receive_buffers();
    const std::uint64_t at = in.number<std::uint32_t>() % end;
    const ByteView bytes = in.some_bytes(64);
    if (inside(at, bytes.size(), end)) std::memcpy(client.memory() + at, bytes.data(), bytes.size());
  }
  void write_cell(int i, Input& in) {
    RawClient& client = *clients_[i];
    auto* const cell =
        reinterpret_cast<proxy::PortCell*>(client.memory() + client.geometry().cell(ends_[i].cell));
    if (in.truth())
      cell->consumed.store(in.truth() ? in.byte() : in.number<std::uint32_t>());
    else
      cell->credit[0].store(in.number<std::uint32_t>());
  }
  void write_arrivals(int i, Input& in) {
    RawClient& client = *clients_[i];
    auto* const ring = reinterpret_cast<RingControl*>(client.memory() + client.geometry().arrival_ring(0, 0));
    // An honest client returns exactly the entries that it has seen.
    ring->head.store(in.below(3) != 0 ? ring->tail.load() : in.number<std::uint32_t>(),
                     std::memory_order_release);
  }
  void close(int i, Input& in) {
    if (in.below(4) != 0) return;
    control::Message m;
    m.kind = control::Kind::kClose;
    m.close = {in.truth() ? ends_[i].port : in.number<std::uint32_t>()};
    nodes_.node(static_cast<unsigned>(i)).on_request(nodes_.now(), clients_[i]->id(), m);
  }
  void check_bystander() {
    const std::byte* const at = bystander_->memory() + bystander_->geometry().receive_buffers();
    CHECK(*at == std::byte{0x77} && std::memcmp(at, at + 1, bystander_bytes_ - 1) == 0);
    control::Message listen;
    listen.kind = control::Kind::kListen;
    listen.listen = {kPort + 1, 0, kWindow, 1, stack::kMessages.value()};
    CHECK(bystander_->ask(listen).kind == control::Kind::kOk);
  }

  Nodes nodes_;
  std::unique_ptr<RawClient> bystander_;
  std::uint64_t bystander_bytes_ = 0;
  std::unique_ptr<RawClient> clients_[2];
  control::Opened ends_[2] = {};
  std::uint32_t position_[2] = {0, 0};
  std::uint32_t tail_[2] = {0, 0};
};

// As push_train() reads it: a train, most of them right, with one byte of its descriptor or of its lengths changed.
std::vector<std::byte> make_train_operation(fuzz::Draw& draw) {
  fuzz::Writer w;
  const std::vector<std::uint16_t> lengths = fuzz::make_lengths(draw);
  w.byte(draw.below(2)).byte(1).byte(static_cast<std::uint32_t>(lengths.size()) - 2).byte(draw.below(16));
  for (const std::uint16_t length : lengths) w.byte(length);
  for (const std::size_t entry : {sizeof(proxy::SendDescriptor), sizeof(stack::TrainLengths)}) {
    const bool changes = draw.one_in(4);
    w.byte(changes ? 1 : 0);
    if (!changes) continue;
    w.byte(1).number(static_cast<std::uint16_t>(draw.below(static_cast<std::uint32_t>(entry))));
    w.byte(draw.number<std::uint8_t>());
  }
  return w.byte(draw.below(8)).take();
}

// As run() and push() read it: a descriptor, most of them right, with one field changed; or a number at a limit that is
// written where indices, cells and rings are; or a train.
std::vector<std::byte> make_operation(fuzz::Draw& draw) {
  if (draw.one_in(4)) return make_train_operation(draw);
  fuzz::Writer w;
  w.byte(draw.below(2));
  switch (draw.below(4)) {
    case 0:
      return w.byte(2)
          .byte(draw.below(2))
          .number(draw.number<std::uint32_t>())
          .byte(1)
          .number(draw.number<std::uint32_t>())
          .take();
    case 1:
      return w.byte(3)
          .byte(1)
          .number(4 * draw.below(4096))
          .some_bytes(fuzz::Writer().number(draw.number<std::uint32_t>()).take())
          .take();
    case 2:
      return w.byte(4).byte(draw.below(2)).byte(0).number(draw.number<std::uint32_t>()).take();
    default:
      w.byte(0).byte(0).number(draw.length(static_cast<std::uint16_t>(64 * draw.below(512))));
      w.byte(draw.below(16)).byte(draw.below(4)).byte(draw.below(4)).byte(1).byte(1);
      return w.number(static_cast<std::uint16_t>(draw.below(sizeof(proxy::SendDescriptor))))
          .byte(draw.length(1u))
          .take();
  }
}

}  // namespace
}  // namespace braid

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace braid;
  fuzz::Input in(data, std::min<std::size_t>(size, 2048));
  fuzz::with_restored<ClientWorld>([&](ClientWorld& world) { world.run(in); });
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  return braid::fuzz::custom_mutation(data, size, max_size, seed, braid::make_operation);
}
