#include "proxy/xdp/xdp_program.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "base/bytes.h"
#include "stack/wire/flow.h"

namespace braid::proxy {
namespace {

constexpr std::int32_t kPass = XDP_PASS;

// Instructions, as the kernel's own macros of these kinds make them.
class Assembler {
 public:
  void move(int to, int from) { emit(BPF_ALU64 | BPF_MOV | BPF_X, to, from, 0, 0); }
  void move_constant(int to, std::int32_t value) { emit(BPF_ALU64 | BPF_MOV | BPF_K, to, 0, 0, value); }
  void add_constant(int to, std::int32_t value) { emit(BPF_ALU64 | BPF_ADD | BPF_K, to, 0, 0, value); }
  // 32 bits: what is below zero becomes large.
  void subtract_constant(int to, std::int32_t value) { emit(BPF_ALU | BPF_SUB | BPF_K, to, 0, 0, value); }
  void and_constant(int to, std::int32_t value) { emit(BPF_ALU | BPF_AND | BPF_K, to, 0, 0, value); }
  void host_order_16(int to) { emit(BPF_ALU | BPF_END | BPF_TO_BE, to, 0, 0, 16); }
  void load(int size, int to, int from, std::size_t offset) {
    emit(BPF_LDX | BPF_MEM | size, to, from, static_cast<std::int16_t>(offset), 0);
  }
  void load_map(int to, int map) {
    emit(BPF_LD | BPF_IMM | BPF_DW, to, BPF_PSEUDO_MAP_FD, 0, map);
    emit(0, 0, 0, 0, 0);
  }
  void call(int function) { emit(BPF_JMP | BPF_CALL, 0, 0, 0, function); }
  void exit() { emit(BPF_JMP | BPF_EXIT, 0, 0, 0, 0); }
  // To the end, which passes the frame on.
  void pass_if(int comparison, int left, std::int32_t right) {
    jumps_.push_back(all_.size());
    emit(BPF_JMP32 | comparison | BPF_K, left, 0, 0, right);
  }
  void pass_if_above(int left, int right) {
    jumps_.push_back(all_.size());
    emit(BPF_JMP | BPF_JGT | BPF_X, left, right, 0, 0);
  }
  std::vector<bpf_insn> finish() {
    for (const std::size_t at : jumps_) all_[at].off = static_cast<std::int16_t>(all_.size() - at - 1);
    move_constant(BPF_REG_0, kPass);
    exit();
    return all_;
  }

 private:
  void emit(int code, int to, int from, std::int16_t offset, std::int32_t constant) {
    bpf_insn one{};
    one.code = static_cast<std::uint8_t>(code);
    one.dst_reg = static_cast<std::uint8_t>(to & 15);
    one.src_reg = static_cast<std::uint8_t>(from & 15);
    one.off = offset;
    one.imm = constant;
    all_.push_back(one);
  }
  std::vector<bpf_insn> all_;
  std::vector<std::size_t> jumps_;
};

Error no_program(int why) {
  if (why == EPERM || why == EACCES)
    return error(
        "AF_XDP needs the capabilities CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF: run as root, or take udp, which needs "
        "none");
  if (why == ENOSYS || why == EINVAL)
    return error(
        "this kernel has no XDP programs with maps of sockets (CONFIG_BPF_SYSCALL, CONFIG_XDP_SOCKETS): {}; take udp",
        std::strerror(why));
  return error("the kernel does not load an XDP program: {}", std::strerror(why));
}

int silent(enum libbpf_print_level, const char*, va_list) {
  return 0;
}

struct Attached {
  std::uint32_t id = 0;  // 0: there is none
  std::string name;
};

Attached attached_to(int interface) {
  Attached found;
  if (::bpf_xdp_query_id(interface, 0, &found.id) != 0 || found.id == 0) return {};
  const int program = ::bpf_prog_get_fd_by_id(found.id);
  if (program < 0) return found;
  bpf_prog_info info{};
  std::uint32_t bytes = sizeof info;
  if (::bpf_obj_get_info_by_fd(program, &info, &bytes) == 0) found.name = info.name;
  ::close(program);
  return found;
}

}  // namespace

std::vector<bpf_insn> xdp_instructions(const XdpFilter& filter, int socket_map) {
  using namespace stack::detail;
  constexpr int kContext = BPF_REG_6, kFrame = BPF_REG_2, kEnd = BPF_REG_3, kField = BPF_REG_4;
  Assembler a;
  a.move(kContext, BPF_REG_1);
  a.load(BPF_W, kFrame, kContext, offsetof(xdp_md, data));
  a.load(BPF_W, kEnd, kContext, offsetof(xdp_md, data_end));
  a.move(kField, kFrame);
  a.add_constant(kField, stack::kFlowHeaderBytes);
  a.pass_if_above(kField, kEnd);
  a.load(BPF_H, kField, kFrame, kTypeAt);
  a.pass_if(BPF_JNE, kField, swapped(std::uint16_t{0x0800}));
  a.load(BPF_B, kField, kFrame, kIpAt);
  a.pass_if(BPF_JNE, kField, 0x45);
  a.load(BPF_H, kField, kFrame, kIpFragmentAt);
  a.and_constant(kField, swapped(std::uint16_t{0x3fff}));  // more fragments, and where in the packet
  a.pass_if(BPF_JNE, kField, 0);
  a.load(BPF_B, kField, kFrame, kIpLifeAt + 1);
  a.pass_if(BPF_JNE, kField, 17);
  a.load(BPF_W, kField, kFrame, kIpDestinationAt);
  a.pass_if(BPF_JNE, kField, static_cast<std::int32_t>(swapped(filter.address.value())));
  a.load(BPF_H, kField, kFrame, kUdpToAt);
  a.host_order_16(kField);
  a.subtract_constant(kField, filter.first_port);
  a.pass_if(BPF_JGE, kField, static_cast<std::int32_t>(filter.ports));
  a.load_map(BPF_REG_1, socket_map);
  a.load(BPF_W, BPF_REG_2, kContext, offsetof(xdp_md, rx_queue_index));
  a.move_constant(BPF_REG_3, kPass);
  a.call(BPF_FUNC_redirect_map);
  a.exit();
  return a.finish();
}

Result<std::unique_ptr<XdpProgram>> XdpProgram::load(const XdpFilter& filter, unsigned queues) {
  ::libbpf_set_print(&silent);
  const int map = ::bpf_map_create(BPF_MAP_TYPE_XSKMAP, kName, sizeof(std::uint32_t), sizeof(std::uint32_t),
                                   queues, nullptr);
  if (map < 0) return no_program(errno);
  const std::vector<bpf_insn> instructions = xdp_instructions(filter, map);
  const int program =
      ::bpf_prog_load(BPF_PROG_TYPE_XDP, kName, "MIT", instructions.data(), instructions.size(), nullptr);
  if (program < 0) {
    const int why = errno;
    ::close(map);
    return no_program(why);
  }
  return std::unique_ptr<XdpProgram>(new XdpProgram(map, program));
}

XdpProgram::~XdpProgram() {
  if (link_ >= 0) ::close(link_);
  ::close(program_);
  ::close(map_);
}

Result<void> XdpProgram::serve(unsigned queue, int socket) {
  if (::bpf_map_update_elem(map_, &queue, &socket, BPF_ANY) == 0) return {};
  return error("receive queue {}: the kernel does not take its socket: {}", queue, std::strerror(errno));
}

Result<void> XdpProgram::attach(const std::string& interface) {
  const auto index = static_cast<int>(::if_nametoindex(interface.c_str()));
  const auto try_mode = [&](std::uint32_t mode) {
    bpf_link_create_opts options{};
    options.sz = sizeof options;
    options.flags = mode;
    link_ = ::bpf_link_create(program_, index, BPF_XDP, &options);
    return link_ >= 0 ? 0 : errno;
  };
  // Drivers refuse for many reasons: a long MTU, too few queues, no XDP.
  const auto try_modes = [&] {
    const int why = try_mode(XDP_FLAGS_DRV_MODE);
    const bool is_final = why == 0 || why == EBUSY || why == EEXIST || why == EPERM;
    return is_final ? why : try_mode(XDP_FLAGS_SKB_MODE);
  };
  int why = try_modes();
  if (why == 0) return {};
  if (why == EPERM) return no_program(why);
  const Attached other = attached_to(index);
  // What a link holds cannot be detached so.
  if (other.name == kName && ::bpf_xdp_detach(index, 0, nullptr) == 0) {
    why = try_modes();
    if (why == 0) return {};
  }
  if (other.name == kName)
    return error(
        "{} has an XDP program of another braidd (id {}): end that one, or give this one another interface",
        interface, other.id);
  if (other.id != 0)
    return error(
        "{} has another XDP program, '{}' (id {}): end the process that attached it, or, if that is gone, remove it with "
        "'ip link set dev {} xdp off'",
        interface, other.name, other.id, interface);
  if (why == EINVAL)
    return error("{}: this kernel attaches no XDP program by a link (Linux 5.9 does); take udp", interface);
  return error("{}: the kernel does not attach an XDP program: {}; take udp", interface, std::strerror(why));
}

}  // namespace braid::proxy
