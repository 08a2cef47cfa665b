#include "proxy/daemon/worker_counters.h"

namespace braid::proxy {
namespace {

void publish_packets(const stack::Stack& stack, ProxyCounters& counters) {
  const stack::StackStats& s = stack.stats();
  counters.packets_received.set(s.packets_received);
  counters.duplicates.set(s.duplicates);
  counters.bad_frames.set(s.bad_frames);
  counters.bad_ip.set(s.bad_ip);
  counters.bad_udp.set(s.bad_udp);
  counters.bad_packets.set(s.bad_packets);
  counters.other_versions.set(s.other_versions);
  counters.not_for_us.set(s.not_for_us + s.broadcasts);
  counters.martians.set(s.martians);
  counters.fragments_received.set(s.fragments_received);
  counters.fragments_sent.set(s.fragments_sent);
  counters.packets_reassembled.set(s.packets_reassembled);
  counters.fragments_dropped.set(s.fragments_dropped);
  counters.closed_ports.set(s.closed_ports);
  counters.unreachables.set(s.unreachables_received);
  counters.icmp_answers.set(s.echoes_answered + s.icmp_errors_sent);
  counters.outgoing_dropped.set(s.outgoing_dropped);
  counters.refused_no_secret.set(s.refused_no_secret);
  counters.refused_other_secret.set(s.refused_other_secret);
  counters.refused_sealed.set(s.refused_sealed);
  counters.hellos_unread.set(s.hellos_unread);
  counters.forged_packets.set(s.forged_packets);
  counters.replayed_packets.set(s.replayed_packets);
  counters.unknown_epoch.set(s.unknown_epoch);
  counters.address_conflicts.set(stack.neighbours().stats().address_conflicts);
  counters.stations_changed.set(stack.neighbours().stats().moved);
}

// Sums over the sub-connections.
void publish_sub_connections(const stack::Stack& stack, ProxyCounters& counters) {
  stack::SubConnectionStats sum;
  for (const auto& sub : stack.sub_connections()) {
    const stack::SubConnectionStats& t = sub->stats();
    sum.packets_sent += t.packets_sent;
    sum.retransmissions += t.retransmissions;
    sum.timeouts += t.timeouts;
    sum.fast_retransmissions += t.fast_retransmissions;
    sum.tail_probes += t.tail_probes;
    sum.spurious_timeouts += t.spurious_timeouts;
    sum.spurious_fast_retransmissions += t.spurious_fast_retransmissions;
    sum.spurious_tail_probes += t.spurious_tail_probes;
    sum.acknowledgements_sent += t.acknowledgements_sent;
    sum.messages_sent += t.messages_sent;
    sum.message_bytes_sent += t.message_bytes_sent;
    sum.peers_lost += t.peers_lost;
    sum.handshakes_aes_gcm += t.handshakes_aes_gcm;
    sum.handshakes_chacha20 += t.handshakes_chacha20;
    sum.handshakes_plain += t.handshakes_plain;
    sum.address_moves += t.address_moves;
    sum.address_challenges += t.address_challenges;
    sum.address_validations_failed += t.address_validations_failed;
  }
  counters.packets_sent.set(sum.packets_sent);
  counters.retransmissions.set(sum.retransmissions);
  counters.timeouts.set(sum.timeouts);
  counters.fast_retransmissions.set(sum.fast_retransmissions);
  counters.tail_probes.set(sum.tail_probes);
  counters.spurious_timeouts.set(sum.spurious_timeouts);
  counters.spurious_fast_retransmissions.set(sum.spurious_fast_retransmissions);
  counters.spurious_tail_probes.set(sum.spurious_tail_probes);
  counters.acknowledgements_sent.set(sum.acknowledgements_sent);
  counters.messages_sent.set(sum.messages_sent);
  counters.message_bytes_sent.set(sum.message_bytes_sent);
  counters.peers_lost.set(sum.peers_lost);
  counters.handshakes_aes_gcm.set(sum.handshakes_aes_gcm);
  counters.handshakes_chacha20.set(sum.handshakes_chacha20);
  counters.handshakes_plain.set(sum.handshakes_plain);
  counters.address_moves.set(sum.address_moves);
  counters.address_challenges.set(sum.address_challenges);
  counters.address_validations_failed.set(sum.address_validations_failed);
}

}  // namespace

void publish_stack_counters(const stack::Stack& stack, ProxyCounters& counters) {
  publish_packets(stack, counters);
  publish_sub_connections(stack, counters);
}

}  // namespace braid::proxy
