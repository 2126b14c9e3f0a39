// Flags in memory visible to host and device. Words, in order: the device's flag, the host's flag,
// the error status, the data published by the device, the data published by the host.

#define DEVICE_FLAG 0
#define HOST_FLAG 1
#define STATUS 2
#define DEVICE_DATA 3
#define HOST_DATA 4

// With SCOPE, the memory scope of C11 atomics that both sides share, flags are atomics; without it,
// volatile words.
#ifdef SCOPE
typedef atomic_uint Flag;
#define STORE_FLAG(flag, value) atomic_store_explicit(flag, value, memory_order_seq_cst, SCOPE)
#define LOAD_FLAG(flag) atomic_load_explicit(flag, memory_order_seq_cst, SCOPE)
#define COUNT_FLAG(flag) atomic_fetch_add_explicit(flag, 1u, memory_order_seq_cst, SCOPE)
#else
typedef uint Flag;
#define STORE_FLAG(flag, value)       \
  do {                                \
    mem_fence(CLK_GLOBAL_MEM_FENCE);  \
    *(flag) = (value);                \
    mem_fence(CLK_GLOBAL_MEM_FENCE);  \
  } while (0)
#define LOAD_FLAG(flag) (*(flag))
uint count_flag(volatile __global Flag *flag) {
  mem_fence(CLK_GLOBAL_MEM_FENCE);
  const uint before = atomic_inc(flag);
  mem_fence(CLK_GLOBAL_MEM_FENCE);
  return before;
}
#define COUNT_FLAG(flag) count_flag(flag)
#endif

// Publishes the data of `number`, then sets the device's flag.
#define NOTIFY_HOST(words, number)             \
  do {                                         \
    STORE_FLAG((words) + DEVICE_DATA, number); \
    STORE_FLAG((words) + DEVICE_FLAG, number); \
  } while (0)

// ANNOUNCE_PARAMETERS follow the other parameters of a kernel that announces its end, and ANNOUNCE
// is its end: the last work-group to finish notifies the host (EPEW'25, section 4), unless the
// number is 0. Every thread must reach the barrier at the end, after which its group counts itself,
// so a thread leaves early by jumping there.
#define ANNOUNCE_PARAMETERS \
  , volatile __global Flag *flag_words, volatile __global Flag *flag_groups, uint flag_number
#define ANNOUNCE                                                                             \
  barrier(CLK_GLOBAL_MEM_FENCE);                                                             \
  if (flag_number != 0 && get_local_id(0) + get_local_id(1) + get_local_id(2) == 0 &&        \
      COUNT_FLAG(flag_groups) == get_num_groups(0) * get_num_groups(1) * get_num_groups(2) - 1) { \
    STORE_FLAG(flag_groups, 0u);                                                             \
    NOTIFY_HOST(flag_words, flag_number);                                                    \
  }
#define LEAVE goto end_of_kernel
#define END_OF_KERNEL \
  end_of_kernel:;     \
  ANNOUNCE
