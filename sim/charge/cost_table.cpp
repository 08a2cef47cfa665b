#include "sim/charge/cost_table.h"

namespace braid::charge {
namespace {

// The ratios are those of SPARC processors of the early nineties; Sparcle, the processor of Alewife, is one
// of them. A load takes two cycles and a store three, an address can be the sum of two registers, there is no
// integer divider. Floating-point operations are not pipelined: each waits for the one before. The cost model
// of a machine says how many of its cycles a unit is.
constexpr Units kFree = 0;  // copies, extensions, sums as addresses: part of another instruction
constexpr Units kInteger = 1;
constexpr Units kLoad = 2;   // of a word of 8 bytes
constexpr Units kStore = 3;  // the same
constexpr Units kBranch = 1;
constexpr Units kIndirect = 3;  // jump through a table or a register, with computing the address
constexpr Units kReturn = 2;
constexpr Units kCall = 5;  // with saving and restoring registers in the callee
constexpr Units kIntegerMultiply = 4;
constexpr Units kMultiplyByConstant = 2;  // shifts and additions
constexpr Units kIntegerDivide = 20;
constexpr Units kDivideByConstant = kIntegerMultiply + 2;
constexpr Units kFloat = 4;  // add, subtract, multiply, compare, convert
constexpr Units kFloatDivide = 20;
constexpr Units kSquareRoot = 30;
constexpr Units kRound = 2 * kFloat;
constexpr Units kElementary = 80;  // exp, log, sin ...: argument reduction and a polynomial of some ten terms
constexpr Units kAtomic = kLoad + kStore + kInteger;
constexpr Units kMemoryCall = 10;   // memcpy, memset ..., and for each byte:
constexpr Units kBytesPerUnit = 2;  // a word is loaded and stored in 4 or 5 units
constexpr Units kAllocation = 100;
constexpr Units kLibraryCall = 50;  // any other function of a library

Units words(tree type) {
  const HOST_WIDE_INT bytes = int_size_in_bytes(type);
  return bytes <= 8 ? 1 : (bytes + 7) / 8;  // bytes == -1: the size is not constant
}

// The number of scalar operations for one on this type: the processor has no vector instructions.
Units lanes(tree type) {
  unsigned HOST_WIDE_INT count = 1;
  if (VECTOR_TYPE_P(type) && !TYPE_VECTOR_SUBPARTS(type).is_constant(&count)) count = 1;
  return static_cast<Units>(count);
}

bool is_float(tree type) {
  return FLOAT_TYPE_P(type);  // vectors and complex numbers of them too
}

bool is_power_of_two(tree operand) {
  return CONSTANT_CLASS_P(operand) && INTEGRAL_TYPE_P(TREE_TYPE(operand)) && integer_pow2p(operand);
}

Units conversion(tree to, tree from) {
  return is_float(to) || is_float(from) ? kFloat : kFree;
}

Units binary(const gassign* s, tree type) {
  tree const second = gimple_assign_rhs2(s);
  switch (gimple_assign_rhs_code(s)) {
    case TRUNC_DIV_EXPR:
    case CEIL_DIV_EXPR:
    case FLOOR_DIV_EXPR:
    case ROUND_DIV_EXPR:
    case TRUNC_MOD_EXPR:
    case CEIL_MOD_EXPR:
    case FLOOR_MOD_EXPR:
    case ROUND_MOD_EXPR:
    case EXACT_DIV_EXPR:
      if (is_power_of_two(second)) return kInteger;
      return CONSTANT_CLASS_P(second) ? kDivideByConstant : kIntegerDivide;
    case RDIV_EXPR:
      return kFloatDivide;
    case MULT_EXPR:
      if (is_float(type)) return kFloat;
      if (is_power_of_two(second)) return kInteger;
      return CONSTANT_CLASS_P(second) ? kMultiplyByConstant : kIntegerMultiply;
    case MULT_HIGHPART_EXPR:
    case WIDEN_MULT_EXPR:
      return kIntegerMultiply;
    case POINTER_PLUS_EXPR:
    case COMPLEX_EXPR:
      return kFree;
    default:
      return is_float(type) ? kFloat : kInteger;
  }
}

Units operation(const gassign* s) {
  tree const type = TREE_TYPE(gimple_assign_lhs(s));
  tree const from = TREE_TYPE(gimple_assign_rhs1(s));
  const tree_code code = gimple_assign_rhs_code(s);
  if (gimple_assign_single_p(s)) return kFree;
  if (CONVERT_EXPR_CODE_P(code) || code == FLOAT_EXPR || code == FIX_TRUNC_EXPR)
    return lanes(type) * conversion(type, from);
  // The result is a truth value; the cost depends on the type of the operands.
  if (TREE_CODE_CLASS(code) == tcc_comparison) return lanes(from) * (is_float(from) ? kFloat : kInteger);
  if (TREE_CODE_CLASS(code) == tcc_binary) return lanes(type) * binary(s, type);
  // A sign is one bit; a conditional expression copies one of two values.
  if (code == NEGATE_EXPR || code == ABS_EXPR || code == COND_EXPR) return lanes(type) * kInteger;
  return lanes(type) * (is_float(type) ? kFloat : kInteger);
}

// Indices that must be scaled before they are added.
Units indices(tree reference) {
  Units cost = 0;
  for (; handled_component_p(reference); reference = TREE_OPERAND(reference, 0)) {
    if (TREE_CODE(reference) == ARRAY_REF && !CONSTANT_CLASS_P(TREE_OPERAND(reference, 1))) cost += kInteger;
  }
  return cost;
}

Units stored(const gimple* s) {
  if (!gimple_store_p(s)) return 0;
  tree const to = gimple_get_lhs(s);
  return indices(to) + words(TREE_TYPE(to)) * kStore;
}

Units assignment(const gassign* s) {
  if (gimple_clobber_p(s)) return 0;
  Units cost = operation(s) + stored(s);
  tree const from = gimple_assign_rhs1(s);
  if (gimple_assign_load_p(s)) cost += indices(from) + words(TREE_TYPE(from)) * kLoad;
  if (TREE_CODE(from) == ADDR_EXPR) cost += indices(TREE_OPERAND(from, 0));
  return cost;
}

Units internal_call(const gcall* s) {
  switch (gimple_call_internal_fn(s)) {
    // Sanitizer checks are not work of the program.
    case IFN_UBSAN_NULL:
    case IFN_UBSAN_BOUNDS:
    case IFN_UBSAN_VPTR:
    case IFN_UBSAN_OBJECT_SIZE:
    case IFN_UBSAN_PTR:
    case IFN_ASAN_CHECK:
    case IFN_ASAN_MARK:
    case IFN_ASAN_POISON:
    case IFN_ASAN_POISON_USE:
    case IFN_TSAN_FUNC_EXIT:
    case IFN_FALLTHROUGH:
    case IFN_UNIQUE:
      return 0;
    case IFN_UBSAN_CHECK_MUL:
    case IFN_MUL_OVERFLOW:
      return kIntegerMultiply;
    case IFN_SQRT:
      return kSquareRoot;
    case IFN_FLOOR:
    case IFN_CEIL:
    case IFN_TRUNC:
    case IFN_ROUND:
    case IFN_ROUNDEVEN:
    case IFN_RINT:
    case IFN_NEARBYINT:
      return kRound;
    case IFN_FMIN:
    case IFN_FMAX:
      return kFloat;
    case IFN_FMA:
    case IFN_FMS:
    case IFN_FNMA:
    case IFN_FNMS:
      return 2 * kFloat;
    default:
      return kInteger;
  }
}

bool is_atomic(built_in_function f) {
  return f >= BUILT_IN_SYNC_FETCH_AND_ADD_N && f <= BUILT_IN_ATOMIC_FERAISEEXCEPT;
}

bool is_of_sanitizer(built_in_function f) {
  return f > BEGIN_SANITIZER_BUILTINS && f < END_SANITIZER_BUILTINS;
}

Units library_call(tree callee) {
  const built_in_function f = DECL_FUNCTION_CODE(callee);
  switch (f) {
    CASE_FLT_FN(BUILT_IN_FABS) : CASE_FLT_FN(BUILT_IN_COPYSIGN) : return kInteger;
    CASE_FLT_FN(BUILT_IN_FMIN)
        : CASE_FLT_FN(BUILT_IN_FMAX)
        : CASE_FLT_FN(BUILT_IN_FDIM)
        : CASE_FLT_FN(BUILT_IN_LRINT)
        : CASE_FLT_FN(BUILT_IN_LLRINT)
        : CASE_FLT_FN(BUILT_IN_LROUND)
        : CASE_FLT_FN(BUILT_IN_LLROUND)
        : CASE_FLT_FN(BUILT_IN_IRINT) : CASE_FLT_FN(BUILT_IN_IROUND) : return kFloat;
    CASE_FLT_FN(BUILT_IN_FLOOR)
        : CASE_FLT_FN(BUILT_IN_CEIL)
        : CASE_FLT_FN(BUILT_IN_TRUNC)
        : CASE_FLT_FN(BUILT_IN_ROUND)
        : CASE_FLT_FN(BUILT_IN_RINT)
        : CASE_FLT_FN(BUILT_IN_NEARBYINT)
        : CASE_FLT_FN(BUILT_IN_FMA)
        : CASE_FLT_FN(BUILT_IN_LDEXP)
        : CASE_FLT_FN(BUILT_IN_FREXP) : CASE_FLT_FN(BUILT_IN_MODF) : return kRound;
    CASE_FLT_FN(BUILT_IN_SQRT) : return kSquareRoot;
    CASE_FLT_FN(BUILT_IN_EXP)
        : CASE_FLT_FN(BUILT_IN_EXP2)
        : CASE_FLT_FN(BUILT_IN_EXPM1)
        : CASE_FLT_FN(BUILT_IN_LOG)
        : CASE_FLT_FN(BUILT_IN_LOG2)
        : CASE_FLT_FN(BUILT_IN_LOG10)
        : CASE_FLT_FN(BUILT_IN_LOG1P)
        : CASE_FLT_FN(BUILT_IN_SIN)
        : CASE_FLT_FN(BUILT_IN_COS)
        : CASE_FLT_FN(BUILT_IN_TAN)
        : CASE_FLT_FN(BUILT_IN_ASIN)
        : CASE_FLT_FN(BUILT_IN_ACOS)
        : CASE_FLT_FN(BUILT_IN_ATAN)
        : CASE_FLT_FN(BUILT_IN_ATAN2)
        : CASE_FLT_FN(BUILT_IN_SINH)
        : CASE_FLT_FN(BUILT_IN_COSH)
        : CASE_FLT_FN(BUILT_IN_TANH)
        : CASE_FLT_FN(BUILT_IN_CBRT)
        : CASE_FLT_FN(BUILT_IN_HYPOT)
        : CASE_FLT_FN(BUILT_IN_FMOD)
        : CASE_FLT_FN(BUILT_IN_REMAINDER)
        : CASE_FLT_FN(BUILT_IN_ERF) : CASE_FLT_FN(BUILT_IN_ERFC) : return kElementary;
    // Functions with two results, or composed of two elementary functions.
    CASE_FLT_FN(BUILT_IN_SINCOS)
        : CASE_FLT_FN(BUILT_IN_CEXPI)
        : CASE_FLT_FN(BUILT_IN_POW)
        : CASE_FLT_FN(BUILT_IN_TGAMMA) : CASE_FLT_FN(BUILT_IN_LGAMMA) : return 2 * kElementary;
    case BUILT_IN_MALLOC:
    case BUILT_IN_CALLOC:
    case BUILT_IN_REALLOC:
    case BUILT_IN_ALIGNED_ALLOC:
    case BUILT_IN_FREE:
      return kAllocation;
    default:
      if (is_of_sanitizer(f)) return 0;
      if (is_atomic(f)) return kAtomic;
      if (is_inexpensive_builtin(callee)) return kInteger;
      return kLibraryCall;
  }
}

// The number of bytes that a call moves, sets or compares.
tree bytes_of(const gimple* s) {
  if (!gimple_call_builtin_p(s, BUILT_IN_NORMAL)) return NULL_TREE;
  switch (DECL_FUNCTION_CODE(gimple_call_fndecl(s))) {
    case BUILT_IN_MEMCPY:
    case BUILT_IN_MEMMOVE:
    case BUILT_IN_MEMPCPY:
    case BUILT_IN_MEMSET:
    case BUILT_IN_MEMCMP:
    case BUILT_IN_MEMCMP_EQ:
    case BUILT_IN_MEMCPY_CHK:
    case BUILT_IN_MEMMOVE_CHK:
    case BUILT_IN_MEMPCPY_CHK:
    case BUILT_IN_MEMSET_CHK:
      return gimple_call_arg(s, 2);
    default:
      return NULL_TREE;
  }
}

Units callee(const gcall* s) {
  if (tree const bytes = bytes_of(s)) {
    if (!tree_fits_shwi_p(bytes)) return kMemoryCall;
    return kMemoryCall + tree_to_shwi(bytes) / kBytesPerUnit;
  }
  if (gimple_call_builtin_p(s, BUILT_IN_NORMAL)) return library_call(gimple_call_fndecl(s));
  if (gimple_call_builtin_p(s)) return kFloat;  // an intrinsic of the machine
  tree const decl = gimple_call_fndecl(s);
  if (decl == NULL_TREE) return kCall + kIndirect;
  if (DECL_IS_OPERATOR_NEW_P(decl) || DECL_IS_OPERATOR_DELETE_P(decl)) return kAllocation;
  return DECL_EXTERNAL(decl) && DECL_IN_SYSTEM_HEADER(decl) ? kLibraryCall : kCall;
}

Units call(const gcall* s) {
  if (gimple_call_internal_p(s)) return internal_call(s);
  Units cost = callee(s);
  // A result that the callee constructs in place is charged there.
  if (!gimple_call_return_slot_opt_p(s)) cost += stored(s);
  for (unsigned i = 0; i < gimple_call_num_args(s); ++i) {
    tree const type = TREE_TYPE(gimple_call_arg(s, i));
    if (AGGREGATE_TYPE_P(type)) cost += words(type) * (kLoad + kStore);
  }
  return cost;
}

}  // namespace

Units cost_of(const gimple* s) {
  switch (gimple_code(s)) {
    case GIMPLE_ASSIGN:
      return assignment(as_a<const gassign*>(s));
    case GIMPLE_CALL:
      return call(as_a<const gcall*>(s));
    case GIMPLE_COND:
      return kBranch + (is_float(TREE_TYPE(gimple_cond_lhs(s))) ? kFloat : kInteger);
    case GIMPLE_SWITCH:
      return kBranch + kInteger + kLoad + kIndirect;
    case GIMPLE_GOTO:
      return kIndirect;
    case GIMPLE_RETURN:
      return kReturn;
    case GIMPLE_ASM:
      return kInteger;
    case GIMPLE_RESX:
      return kLibraryCall;
    case GIMPLE_EH_DISPATCH:
      return kBranch + kInteger;
    default:
      return 0;
  }
}

tree units_of_move(const gimple* s) {
  tree const bytes = bytes_of(s);
  if (bytes == NULL_TREE || tree_fits_shwi_p(bytes)) return NULL_TREE;
  tree const type = long_integer_type_node;
  return fold_build2(TRUNC_DIV_EXPR, type, fold_convert(type, bytes), build_int_cst(type, kBytesPerUnit));
}

bool is_boundary(const gimple* s) {
  if (const gasm* const a = dyn_cast<const gasm*>(s)) return gimple_asm_clobbers_memory_p(a);
  if (gimple_code(s) != GIMPLE_CALL || gimple_call_internal_p(s)) return false;
  if (!gimple_call_builtin_p(s)) return true;
  if (!gimple_call_builtin_p(s, BUILT_IN_NORMAL)) return false;
  const int flags = gimple_call_flags(s);
  return (flags & ECF_LEAF) == 0 || (flags & (ECF_NORETURN | ECF_RETURNS_TWICE)) != 0;
}

}  // namespace braid::charge
