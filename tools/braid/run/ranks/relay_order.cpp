#include "tools/braid/run/ranks/relay_order.h"

#include "tools/braid/run/messages.h"

namespace braid::cli {

std::string text_of(const RelayOrder& order) {
  return encode({{"rank", order.rank},
                 {"address", order.address},
                 {"port", order.port},
                 {"key", bytes_value(order.own.key)},
                 {"certificate", bytes_value(order.own.certificate)},
                 {"peer", bytes_value(order.certificate_of_peer)}});
}

Result<RelayOrder> read_relay_order(const std::string& text) {
  try {
    MessageReader reader;
    reader.feed(text);
    const std::optional<Message> order = reader.next();
    if (!order) return error("braid-node --relay: its file has no order");
    return RelayOrder{.rank = order->at("rank").get<unsigned>(),
                      .address = order->at("address").get<std::string>(),
                      .port = order->at("port").get<std::uint16_t>(),
                      .own = {.key = std::string(bytes_of(order->at("key"))),
                              .certificate = std::string(bytes_of(order->at("certificate")))},
                      .certificate_of_peer = std::string(bytes_of(order->at("peer")))};
  } catch (const Message::exception& problem) {
    return error("braid-node --relay: its file is no order: {}", problem.what());
  }
}

}  // namespace braid::cli
