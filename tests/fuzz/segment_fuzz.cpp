// The transport's packet header, its records and control messages from any bytes: nothing outside them is
// read (the sanitizers see to that), and what was parsed and written parses to the same.
#include "stack/wire/segment.h"

#include <array>

#include "base/check.h"
#include "convergence/ports.h"
#include "convergence/train.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/mutator.h"

namespace braid {
namespace {

void check_header(const stack::PacketHeader& header) {
  std::array<std::byte, stack::kMaxPacketHeaderBytes> once{}, twice{};
  const std::size_t bytes = stack::write_packet_header(once.data(), header);
  CHECK_LE(bytes, once.size());
  stack::PacketHeader parsed;
  std::size_t parsed_bytes = 0;
  CHECK(stack::parse_packet_header(ByteView(once).first(bytes), &parsed, &parsed_bytes));
  CHECK_EQ(parsed_bytes, bytes);
  CHECK_EQ(stack::write_packet_header(twice.data(), parsed), bytes);
  CHECK(once == twice);
}

// Its messages lie in its bytes, one behind the other, and each is a whole message of its own.
void check_train(const stack::Record& train, ByteView bytes, const stack::TrainLengths& lengths) {
  CHECK(stack::is_train(lengths, train.messages, train.bytes));
  CHECK(train.whole() && train.kind == stack::RecordKind::kMessage && !train.many_pieces);
  unsigned messages = 0;
  std::size_t end = 0;
  Position position = train.position;
  convergence::for_each_message(train, bytes, lengths, [&](const stack::Record& one, ByteView its_bytes) {
    const auto at = static_cast<std::size_t>(its_bytes.data() - bytes.data());
    CHECK_EQ(at, stack::train_aligned(static_cast<std::uint32_t>(end)));
    CHECK(inside(at, its_bytes.size(), bytes.size()));
    CHECK(one.whole() && one.messages == 0 && its_bytes.size() == lengths[messages]);
    CHECK_EQ(one.position, position);
    position += convergence::granules_of(one.bytes);
    end = at + its_bytes.size();
    ++messages;
    return true;
  });
  CHECK_EQ(messages, unsigned{train.messages});
  CHECK_EQ(position - train.position,
           static_cast<std::int32_t>(convergence::train_granules(lengths, train.messages)));
}

void check_record(const stack::Record& record, ByteView bytes, const stack::TrainLengths& lengths,
                  ByteView packet) {
  CHECK_EQ(std::size_t{record.bytes}, bytes.size());
  CHECK(inside(static_cast<std::uint64_t>(bytes.data() - packet.data()), bytes.size(), packet.size()));
  CHECK(inside(record.message_offset, record.bytes, record.message_bytes));
  if (record.messages > 0) check_train(record, bytes, lengths);
  std::vector<std::byte> packed(stack::kMaxRecordHeaderBytes + stack::padded(bytes.size()));
  const std::size_t header = stack::write_record_header(packed.data(), record, lengths);
  std::copy(bytes.begin(), bytes.end(), packed.begin() + static_cast<std::ptrdiff_t>(header));
  packed.resize(header + stack::padded(bytes.size()));
  stack::RecordReader reader(packed, 1);
  stack::Record parsed;
  ByteView parsed_bytes;
  CHECK(reader.next(&parsed, &parsed_bytes));
  CHECK_EQ(parsed.position, record.position);
  // A part that is all of its message reads as a whole one, which has no name but its position.
  if (!record.whole()) CHECK_EQ(parsed.message, record.message);
  CHECK_EQ(parsed.message_bytes, record.message_bytes);
  CHECK_EQ(parsed.message_offset, record.message_offset);
  CHECK_EQ(unsigned{parsed.messages}, unsigned{record.messages});
  if (record.messages > 0) CHECK(reader.lengths(parsed) == lengths);
  CHECK(parsed.kind == record.kind && parsed.many_pieces == record.many_pieces && parsed.skip == record.skip);
  CHECK(std::equal(bytes.begin(), bytes.end(), parsed_bytes.begin(), parsed_bytes.end()));
}

void check_control(ByteView bytes) {
  convergence::ControlMessage message;
  if (!convergence::parse_control(bytes, &message)) return;
  std::array<std::byte, convergence::kControlBytes> once{}, twice{};
  convergence::write_control(once, message);
  convergence::ControlMessage parsed;
  CHECK(convergence::parse_control(once, &parsed));
  convergence::write_control(twice, parsed);
  CHECK(once == twice);
}

}  // namespace
}  // namespace braid

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace braid;
  fuzz::Digest::instance().begin();
  // A copy of its own, so that the sanitizer knows where it ends.
  fuzz::Input in(data, size);
  const ByteView input = in.all();
  const std::vector<std::byte> payload(input.begin(), input.end());
  check_control(payload);
  stack::PacketHeader header;
  std::size_t header_bytes = 0;
  if (!stack::parse_packet_header(payload, &header, &header_bytes)) return 0;
  CHECK_LE(header_bytes, payload.size());
  check_header(header);
  stack::RecordReader reader(ByteView(payload).subspan(header_bytes), header.records);
  stack::Record record;
  ByteView bytes;
  unsigned records = 0;
  while (reader.next(&record, &bytes)) {
    CHECK_LE(++records, unsigned{header.records});
    check_record(record, bytes, record.messages > 0 ? reader.lengths(record) : stack::TrainLengths{},
                 payload);
    fuzz::digest(bytes);
    if (record.protocol == stack::kControl) check_control(bytes);
  }
  CHECK(reader.broken() || records == header.records);
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  using namespace braid;
  fuzz::Draw draw(seed);
  switch (draw.below(4)) {
    case 0: {
      const std::vector<std::byte> packet = fuzz::make_packet(draw);
      size = std::min(packet.size(), max_size);
      std::memcpy(data, packet.data(), size);
      return size;
    }
    case 1:
      fuzz::change_packet(draw, MutableBytes(reinterpret_cast<std::byte*>(data), size));
      return size;
    default:
      return LLVMFuzzerMutate(data, size, max_size);
  }
}
