// A host that a braid-node serves: what is asked for becomes messages to it, and what it tells becomes events. The
// braid-node is a command that a launcher gave the words for (an ssh, a srun).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "proxy/daemon/node_config.h"
#include "tools/braid/process/descriptor.h"
#include "tools/braid/process/whole_lines.h"
#include "tools/braid/run/hosts.h"
#include "tools/braid/run/liveness.h"
#include "tools/braid/run/messages.h"
#include "tools/braid/run/placement.h"
#include "tools/braid/run/run_host.h"
#include "tools/braid/run/supervisor.h"
#include "tools/braid/run/tree/first_words.h"
#include "tools/braid/run/tree/host_command.h"

namespace braid::cli {

class RemoteHost final : public RunHost {
 public:
  // How long a braid-node whose work is done may take to end, and one that was told to kill to have done it.
  static constexpr Duration kClose = 2_s;

  // `command`: its braid-node, not started yet. `plans`: of its clusters. `placed`: those of this run on this machine, if the host is this
  // machine; null: the host places its own. `children` and `options` must live as long.
  RemoteHost(ChildProcesses& children, const RunOptions& options, const Host& host,
             std::unique_ptr<HostCommand> command, const std::string& run,
             std::span<const proxy::NodeConfig> plans, const std::vector<PlacedCluster>* placed);

  Result<void> start_daemons() override;
  Result<void> start_application(unsigned cluster, int input, const std::string& debugger) override;
  void signal(const RunProcess& process, int number, SignalTo to) override;
  void ask_for_waits(unsigned cluster) override;
  void close() override;
  void watch(std::vector<pollfd>& fds) const override;
  Instant next_deadline() const override;
  void turn(Instant now) override;
  bool take_end(const EndedChild& ended) override;
  std::vector<HostEvent> take_events() override { return std::exchange(events_, {}); }
  bool has_answered() const override { return first_words_.are_over(); }
  bool is_sending_program() const override { return is_asked_for_ && begin_.ok() && !begin_->empty(); }
  std::vector<unsigned> late_clusters() const override;
  bool waits(unsigned cluster) const override;
  dsm::NodesNow nodes(unsigned cluster) const override { return clusters_.at(cluster).nodes; }
  bool is_stopped(const RunProcess& process) const override;
  std::uint64_t progress() const override;
  void collect(std::vector<ClusterReport>& clusters) const override;

 private:
  struct Cluster {
    bool is_ready = false, waits = false;
    bool is_stopped[2] = {};  // by role
    std::uint64_t progress = 0;
    dsm::NodesNow nodes;
    ClusterReport report;
  };
  // What an application reads, and how many bytes are on the way to it.
  struct Input {
    Descriptor source;
    std::size_t on_the_way = 0;
  };

  void send(const Message& message);
  void send_program();
  void give_up_start();
  bool is_reading() const;
  void read_some(Instant now);
  void take_bytes(std::string_view bytes);
  void take_agents_end(const std::string& end);
  void take(const Message& message);
  // These throw Message::exception where there is none.
  RunProcess living_process(const Message& message) const;
  Cluster& cluster_of(const Message& message);
  void take_state(const Message& clusters);
  void take_output(const Message& message);
  void take_end(const Message& message);
  void forward_input(unsigned cluster, Input& input);
  void look_for_life(Instant now);
  void lose(const std::string& why);

  ChildProcesses& children_;
  const Host host_;
  const std::unique_ptr<HostCommand> command_;
  Result<Message> begin_;  // until it is sent, after the program
  const std::shared_ptr<const Descriptor> program_;
  off_t sent_ = 0;  // of the program
  std::map<unsigned, Cluster> clusters_;
  std::map<unsigned, Input> inputs_;
  const Labels labels_;
  WholeLines lines_[2];  // of standard output and error, where they have labels
  std::vector<HostEvent> events_;

  MessageReader reader_;
  FirstWords first_words_;
  bool is_asked_for_ = false;
  bool is_lost_ = false;
  bool is_closing_ = false;
  Liveness liveness_;
  Instant beat_at_ = Instant::never();
  std::set<RunProcess> living_;  // asked for, and not known to have ended
  Instant kill_by_ = Instant::never(), close_by_ = Instant::never();
};

// The first message: all that a host needs for its clusters, whose plans are given; `placed` as above. The error: the program that is to be sent
// cannot be read.
Result<Message> begin_message(const RunOptions& options, const std::string& run,
                              std::span<const proxy::NodeConfig> plans,
                              const std::vector<PlacedCluster>* placed);

// How a process is named in a message, and the process that a message names; the latter throws nlohmann::json::exception
// where there is none.
void name_process(Message& message, const RunProcess& process);
RunProcess named_process(const Message& message);

// How a recorded end travels: its time as an age, because hosts have clocks of their own.
Message message_of(const RecordedEnd& end, Instant now);
// Throws nlohmann::json::exception for what is none.
RecordedEnd end_from(const Message& message, Instant now);

}  // namespace braid::cli
