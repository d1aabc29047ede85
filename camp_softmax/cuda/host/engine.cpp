// Runs threads: fibers, their scheduler, and everything that makes a thread wait for others.
//
// A fiber is a stack and a stack pointer. `switch_to` stores the registers that a function must preserve on one stack
// and takes them from another; only the scheduler and a fiber switch between each other. All of it is one thread of the
// operating system, so what runs between two switches is not interrupted, and a seed says all there is to say about
// the order in which things happened.
#include "engine.hpp"

#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <unordered_map>

struct Index {
    unsigned x, y, z;
};
EXPORT Index threadIdx, blockIdx, blockDim, gridDim;

namespace host {

EXPORT char* shared;
State now;

namespace {

constexpr long FOREVER = 1 << 16;  // accesses in a row, with seed 0: then whoever waits in a loop lets others go on

uint32_t random_state;
long longest_slice;
unsigned resumed;
std::chrono::steady_clock::time_point deadline;
std::vector<Fiber*> ready;  // from `next` on
size_t next;
std::vector<Copy> copies;
std::unordered_map<const void*, Barrier> barriers;
VectorClock cluster_arriving, cluster_released;
const char* const CLUSTER_WAIT = "cluster_wait()";
unsigned cluster_live, cluster_arrived, cluster_phase;
long long clock_ticks;
void (*entry)(void**);
void** arguments;

// --- fibers ------------------------------------------------------------------------------------------------------

#if defined(__x86_64__)

extern "C" void host_switch(void** from, void* to);
asm(R"(
.text
.type host_switch, @function
host_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size host_switch, .-host_switch
)");

void* scheduler;

void switch_to_scheduler(Fiber& fiber) { host_switch(&fiber.stack_pointer, scheduler); }
void switch_to(Fiber& fiber) { host_switch(&scheduler, fiber.stack_pointer); }

void prepare(Fiber& fiber, void (*start)()) {
    // Stacks that start at the same distance from a page would compete for the same lines of the cache.
    void** top = reinterpret_cast<void**>(fiber.stack + STACK - 64 - fiber.thread % 32 * 64);
    *--top = nullptr;  // where `start` would return to
    *--top = reinterpret_cast<void*>(start);
    for (int i = 0; i < 6; ++i) *--top = nullptr;
    fiber.stack_pointer = top;
}

#else  // slower: it asks the operating system for the signal mask at each switch

ucontext_t scheduler;
std::vector<ucontext_t> contexts;

size_t number(Fiber& fiber) { return size_t(&fiber - now.fibers.data()); }
void switch_to_scheduler(Fiber& fiber) { swapcontext(&contexts[number(fiber)], &scheduler); }
void switch_to(Fiber& fiber) { swapcontext(&scheduler, &contexts[number(fiber)]); }

void prepare(Fiber& fiber, void (*start)()) {
    contexts.resize(now.fibers.size());
    ucontext_t& context = contexts[number(fiber)];
    getcontext(&context);
    context.uc_stack.ss_sp = fiber.stack;
    context.uc_stack.ss_size = STACK;
    context.uc_link = nullptr;
    makecontext(&context, start, 0);
}

#endif

uint32_t random(uint32_t n) {  // xorshift
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return random_state % n;
}

void new_slice() { now.slice = now.launch->seed ? 1 + random(uint32_t(2 * longest_slice)) : FOREVER; }

void wake(Fiber& fiber) {
    fiber.state = Fiber::Ready;
    fiber.operation = -1;
    ready.push_back(&fiber);
}

void wait(const char* what, Place place) {
    Fiber& fiber = *now.fiber;
    fiber.state = Fiber::Waits;
    fiber.waits_in = what;
    fiber.place = place;
    fiber.site = 0;
}

// Lets others run; comes back once somebody has woken the fiber.
void leave() { switch_to_scheduler(*now.fiber); }

Block& block() { return now.blocks[now.fiber->rank]; }
Fiber* threads_of(unsigned rank) { return &now.fibers[size_t(rank) * now.threads]; }

// --- barriers of a block and of a cluster --------------------------------------------------------------------------

void block_barrier_opens(Block& at, unsigned rank) {
    std::vector<Fiber*> all;
    for (unsigned t = 0; t < now.threads; ++t) all.push_back(threads_of(rank) + t);
    at.waiting = 0;
    synchronize(all.data(), all.size());
    for (Fiber* fiber : all) wake(*fiber);
}

void cluster_barrier_opens_if_all_arrived() {
    if (!cluster_live || cluster_arrived < cluster_live) return;
    cluster_arrived = 0;
    ++cluster_phase;
    cluster_released = std::move(cluster_arriving);
    for (Fiber& fiber : now.fibers)
        if (fiber.state == Fiber::Waits && fiber.waits_in == CLUSTER_WAIT) {
            acquire(fiber, cluster_released);
            wake(fiber);
        }
}

// --- warps -------------------------------------------------------------------------------------------------------

enum Operation { Sync, Shuffle, Ballot, Add, Max, Min };  // as Warp in cuda.hpp

// Completes the operation that this lane waits in, if all others that its mask names have come. Lanes that have
// returned, or that the block does not have, are not waited for.
void meet(Fiber& fiber) {
    Fiber* lanes = threads_of(fiber.rank) + fiber.thread / 32 * 32;
    unsigned width = std::min(32u, now.threads - fiber.thread / 32 * 32), taking_part = 0;
    for (unsigned lane = 0; lane < width; ++lane) {
        Fiber& other = lanes[lane];
        if (!(fiber.mask >> lane & 1) || other.state == Fiber::Done) continue;
        bool here = other.state == Fiber::Waits && other.operation >= 0;
        if (here && other.mask != fiber.mask && other.mask >> fiber.thread % 32 & 1)
            return fail(
                "%s: shuffle mask: %s calls %s with mask 0x%08x, %s calls %s with mask 0x%08x at %s; lanes that wait for "
                "each other must give the same mask",
                text(fiber.place).c_str(), name(fiber).c_str(), fiber.waits_in, fiber.mask, name(other).c_str(),
                other.waits_in, other.mask, text(other.place).c_str());
        if (!here || other.mask != fiber.mask) return;
        if (other.operation != fiber.operation)
            return fail("%s: shuffle mask: %s is in %s while %s is in %s at %s; all lanes of the mask must call the same function",
                        text(fiber.place).c_str(), name(fiber).c_str(), fiber.waits_in, name(other).c_str(),
                        other.waits_in, text(other.place).c_str());
        taking_part |= 1u << lane;
    }

    uint64_t result = 0;
    bool first = true;
    std::vector<Fiber*> all;
    for (unsigned lane = 0; lane < width; ++lane) {
        if (!(taking_part >> lane & 1)) continue;
        Fiber& other = lanes[lane];
        all.push_back(&other);
        int64_t value = int64_t(other.value), so_far = int64_t(result);
        switch (fiber.operation) {
            case Ballot: result |= other.value << lane; break;
            case Add: result += other.value; break;
            case Max: result = uint64_t(first || value > so_far ? value : so_far); break;
            case Min: result = uint64_t(first || value < so_far ? value : so_far); break;
        }
        first = false;
    }
    if (fiber.operation == Shuffle) {
        uint64_t values[32];
        for (unsigned lane = 0; lane < width; ++lane) values[lane] = lanes[lane].value;
        for (Fiber* other : all) {
            unsigned from = unsigned(other->from);
            if (from >= 32 || !(taking_part >> from & 1)) {
                const char* why = from >= width                   ? "the block has no such thread"
                                  : !(fiber.mask >> from & 1)     ? "the mask does not name it"
                                                                  : "it has returned";
                return fail("%s: shuffle mask: %s reads from lane %u in %s, but %s; all lanes that are read from must take part",
                            text(other->place).c_str(), name(*other).c_str(), from, other->waits_in, why);
            }
            other->value = values[from];
        }
    } else if (fiber.operation == Sync) {
        synchronize(all.data(), all.size());  // the others do not order memory
    } else {
        for (Fiber* other : all) other->value = result;
    }
    for (Fiber* other : all) wake(*other);
}

// --- copies and mbarriers ------------------------------------------------------------------------------------------

void end_phase_if_complete(Barrier& barrier) {
    if (barrier.pending || barrier.bytes) return;
    barrier.pending = barrier.expected;
    ++barrier.phase;
    barrier.released = std::move(barrier.arriving);
    std::vector<Fiber*> waiting;
    waiting.swap(barrier.waiting);
    for (Fiber* fiber : waiting) {
        acquire(*fiber, barrier.released);
        wake(*fiber);
    }
}

void complete(size_t which) {
    Copy copy = std::move(copies[which]);
    copies.erase(copies.begin() + long(which));
    if (!now.blocks[copy.target].live)
        return fail("%s: cluster: %s arrives in %s, whose threads have all returned; a block's shared memory ends with it: let "
                    "all blocks wait for each other before they return",
                    text(copy.site).c_str(), name(copy).c_str(),
                    block_name(now.order[now.serial - now.first_serial], copy.target).c_str());
    if (copy.from && !access(copy, copy.from, copy.bytes, false, false, copy.site)) return;
    if (!access(copy, copy.to, copy.bytes, true, false, copy.site)) return;
    memcpy(copy.to, copy.from ? copy.from : reinterpret_cast<const char*>(&copy.value), copy.bytes);
    copy.barrier->bytes -= copy.bytes;
    release(copy, copy.barrier->arriving);
    end_phase_if_complete(*copy.barrier);
}

// The mbarrier at a place in shared memory, as seen by a thread that uses it. `from_far`: by other blocks, or by copies.
Barrier& barrier_at(const void* p, bool from_far, const char* what, Place place) {
    Fiber& fiber = *now.fiber;
    auto found = barriers.find(p);
    if (found == barriers.end())
        fail("%s: mbarrier: %s calls %s for one that nobody has initialised; call barrier_init() first",
             text(place).c_str(), name(fiber).c_str(), what);
    Barrier& barrier = found->second;
    if (barrier.component != fiber.component && barrier.clock > fiber.known[barrier.component])
        fail("%s: mbarrier: %s calls %s, and nothing orders that after barrier_init(); wait for the thread that initialises, by "
             "__syncthreads() or by the cluster's barrier",
             text(place).c_str(), name(fiber).c_str(), what);
    if (from_far && !fenced(barrier.component, barrier.clock))
        fail("%s: mbarrier: %s calls %s for one that copies and other blocks may not see yet; call barrier_init_fence() "
             "after barrier_init()",
             text(place).c_str(), name(fiber).c_str(), what);
    return barrier;
}

// A copy with the next component of the block, as seen from the thread that starts it.
Copy new_copy(Place place) {
    static unsigned count;
    static std::vector<uint32_t> times;
    Fiber& fiber = *now.fiber;
    Copy copy;
    copy.rank = fiber.rank;
    copy.thread = fiber.thread;
    copy.component = 1 + fiber.rank * (now.threads + COPIES) + now.threads + count++ % COPIES;
    if (times.size() <= copy.component) times.resize(copy.component + 1);
    copy.clock = ++times[copy.component];
    VectorClock known;  // the thread's own time goes on, so that what it does next is not before the copy
    release(fiber, known);
    copy.known = std::move(known);
    copy.site = site(place);
    return copy;
}

void require_vectors(const char* what, const void* to, const void* from, int bytes, Place place) {
    uintptr_t addresses = reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from);
    if (addresses % 16 == 0 && bytes % 16 == 0 && bytes > 0) return;
    fail("%s: misaligned: %s: %s takes a multiple of 16 bytes at addresses that are multiples of 16, not %d bytes from an "
         "address that is %d more than one",
         text(place).c_str(), name(*now.fiber).c_str(), what, bytes, int(reinterpret_cast<uintptr_t>(from) % 16));
}

char* in_block(const void* p, int rank, const char* what, Place place) {
    Fiber& fiber = *now.fiber;
    size_t offset = size_t(static_cast<const char*>(p) - shared);
    if (offset >= now.launch->shared)
        fail("%s: out of bounds: %s calls %s for a place that is not in shared memory", text(place).c_str(), name(fiber).c_str(), what);
    if (rank < 0 || size_t(rank) >= now.blocks.size())
        fail("%s: out of bounds: %s calls %s for block %d of a cluster of %zu", text(place).c_str(), name(fiber).c_str(), what, rank,
             now.blocks.size());
    return now.blocks[size_t(rank)].shared + offset;
}

// --- the scheduler -------------------------------------------------------------------------------------------------

void thread() {
    entry(arguments);
    Fiber& fiber = *now.fiber;
    fiber.state = Fiber::Done;
    Block& at = block();
    --at.live;
    --cluster_live;
    if (at.waiting)
        fail("%s: barrier divergence: %s waits in __syncthreads(), and %s has returned; every thread of the block must "
             "reach the barrier: let threads without work skip the work, not the barrier",
             text(at.place).c_str(), name(threads_of(fiber.rank)[at.first]).c_str(), name(fiber).c_str());
    for (unsigned t = fiber.thread / 32 * 32; t < std::min(now.threads, fiber.thread / 32 * 32 + 32); ++t) {
        Fiber& other = threads_of(fiber.rank)[t];
        if (other.state == Fiber::Waits && other.operation >= 0) meet(other);
    }
    cluster_barrier_opens_if_all_arrived();
    leave();
    __builtin_trap();
}

void deadlock() {
    std::string who;
    int groups = 0;
    const Fiber* first = nullptr;
    for (size_t i = 0; i < now.fibers.size();) {
        const Fiber& fiber = now.fibers[i];
        size_t end = i + 1;
        auto alike = [&](const Fiber& other) {
            return other.rank == fiber.rank && other.state == fiber.state &&
                   (fiber.state == Fiber::Done ||
                    (other.place.line == fiber.place.line && other.waits_in == fiber.waits_in));
        };
        while (end < now.fibers.size() && alike(now.fibers[end])) ++end;
        if (fiber.state != Fiber::Done) {
            if (!first) first = &fiber;
            if (++groups <= 4) {
                who += groups > 1 ? "; " : "";
                who += name(fiber);
                if (end > i + 1) who += " and " + std::to_string(end - i - 1) + " more";
                who += std::string(end > i + 1 ? " wait in " : " waits in ") + fiber.waits_in + " at " +
                       text(fiber.place);
            }
        }
        i = end;
    }
    if (groups > 4) who += "; and others";
    fail("%s: deadlock: no thread can go on: %s; what is waited for must be reached by every thread that it names",
         text(first->place).c_str(), who.c_str());
}

bool out_of_time() {
    return now.launch->seconds > 0 && std::chrono::steady_clock::now() > deadline;
}

void run_threads() {
    while (!now.failed) {
        bool choose = now.launch->seed;
        if (choose && !copies.empty() && random(8) == 0) {
            complete(random(uint32_t(copies.size())));
            continue;
        }
        if (next == ready.size()) {
            ready.clear();
            next = 0;
            // Copies arrive as late as they can where the seed is 0: who forgets to wait is too early.
            if (copies.empty()) break;
            complete(choose ? random(uint32_t(copies.size())) : 0);
            continue;
        }
        if (choose) std::swap(ready[next], ready[next + random(uint32_t(ready.size() - next))]);
        Fiber& fiber = *ready[next++];
        if (next > 4096 && next > ready.size() / 2) {
            ready.erase(ready.begin(), ready.begin() + long(next));
            next = 0;
        }
        now.fiber = &fiber;
        const Block& at = block();
        shared = at.shared;
        blockIdx = {at.index[0], at.index[1], at.index[2]};
        threadIdx = {fiber.index[0], fiber.index[1], fiber.index[2]};
        new_slice();
        switch_to(fiber);
        now.fiber = nullptr;
        if (++resumed % 64 == 0 && fiber.state != Fiber::Done && out_of_time())
            fail("%s: no end: still running after %g s, here in %s; make sure that what the loop waits for can happen",
                 (fiber.site ? text(fiber.site) : text(fiber.place)).c_str(), now.launch->seconds, name(fiber).c_str());
    }
    if (!now.failed && cluster_live) deadlock();
}

void run_cluster(unsigned cluster) {
    Launch& launch = *now.launch;
    begin_cluster();
    cluster_live = unsigned(now.fibers.size());
    cluster_arrived = cluster_phase = 0;
    for (unsigned rank = 0; rank < launch.cluster; ++rank) {
        Block& at = now.blocks[rank];
        unsigned number = cluster * launch.cluster + rank;
        at.index[0] = number % launch.grid[0];
        at.index[1] = number / launch.grid[0] % launch.grid[1];
        at.index[2] = number / launch.grid[0] / launch.grid[1];
        at.live = now.threads;
        at.waiting = 0;
        for (unsigned t = 0; t < now.threads; ++t) {
            Fiber& fiber = now.fibers[rank * now.threads + t];
            char* stack = now.stacks + (size_t(rank) * now.threads + t) * STACK;
            fiber = Fiber();
            fiber.stack = stack;
            fiber.rank = rank;
            fiber.thread = t;
            fiber.component = 1 + rank * (now.threads + COPIES) + t;
            fiber.index[0] = t % launch.block[0];
            fiber.index[1] = t / launch.block[0] % launch.block[1];
            fiber.index[2] = t / launch.block[0] / launch.block[1];
            prepare(fiber, thread);
            ready.push_back(&fiber);
        }
    }
    run_threads();
    ready.clear();
    next = 0;
    copies.clear();
    barriers.clear();
    cluster_arriving = cluster_released = VectorClock();
    for (Fiber& fiber : now.fibers) fiber.known = VectorClock();
}

void find_module(const void* code) {
    Dl_info info;
    dladdr(code, &info);
    now.module = static_cast<char*>(info.dli_fbase);
    auto measure = [](dl_phdr_info* loaded, size_t, void*) {
        if (reinterpret_cast<char*>(loaded->dlpi_addr) != now.module) return 0;
        for (int i = 0; i < loaded->dlpi_phnum; ++i) {
            const auto& segment = loaded->dlpi_phdr[i];
            if (segment.p_type == PT_LOAD) now.module_bytes = segment.p_vaddr + segment.p_memsz;
        }
        return 1;
    };
    dl_iterate_phdr(measure, nullptr);
}

void reserve_stacks(size_t bytes) {
    if (bytes <= now.stacks_bytes) return;
    if (now.stacks) munmap(now.stacks, now.stacks_bytes);
    void* got = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    now.stacks = got == MAP_FAILED ? nullptr : static_cast<char*>(got);
    now.stacks_bytes = now.stacks ? bytes : 0;
}

}  // namespace

std::string block_name(unsigned cluster, unsigned rank) {
    const unsigned* grid = now.launch->grid;
    unsigned number = cluster * now.launch->cluster + rank;
    if (grid[1] * grid[2] == 1) return "block " + std::to_string(number);
    return "block (" + std::to_string(number % grid[0]) + ", " + std::to_string(number / grid[0] % grid[1]) + ", " +
           std::to_string(number / grid[0] / grid[1]) + ")";
}

bool is_index(const void* p) {
    for (const Index* index : {&threadIdx, &blockIdx, &blockDim, &gridDim})
        if (p >= index && p < index + 1) return true;
    return false;
}

bool is_copy(uint32_t component) { return (component - 1) % (now.threads + COPIES) >= now.threads; }

std::string name(const Actor& actor) {
    const unsigned* size = now.launch->block;
    unsigned t = actor.thread;
    std::string who = std::to_string(t);
    if (size[1] * size[2] > 1)
        who = "(" + std::to_string(t % size[0]) + ", " + std::to_string(t / size[0] % size[1]) + ", " +
              std::to_string(t / size[0] / size[1]) + ")";
    return (is_copy(actor.component) ? "a copy started by thread " : "thread ") + who + " of " +
           block_name(now.order[now.serial - now.first_serial], actor.rank);
}

void fail(const char* format, ...) {
    if (!now.failed) {
        va_list rest;
        va_start(rest, format);
        vsnprintf(now.launch->message, sizeof now.launch->message, format, rest);
        va_end(rest);
        now.failed = true;
    }
    if (now.fiber) leave();
}

void preempt(uint32_t site) {
    now.fiber->site = site;
    wake(*now.fiber);
    leave();
}

// --- what kernels call: cuda.hpp and ptx.cuh declare it ------------------------------------------------------------

EXPORT void block_barrier(Place place) {
    Fiber& fiber = *now.fiber;
    Block& at = block();
    if (at.live < now.threads) {
        Fiber* other = threads_of(fiber.rank);
        while (other->state != Fiber::Done) ++other;
        fail("%s: barrier divergence: %s waits in __syncthreads(), and %s has returned; every thread of the block must "
             "reach the barrier: let threads without work skip the work, not the barrier",
             text(place).c_str(), name(fiber).c_str(), name(*other).c_str());
    }
    if (at.waiting && (at.place.line != place.line || strcmp(at.place.file, place.file)))
        fail("%s: barrier divergence: %s waits in __syncthreads() here, and %s in the one at %s; every thread of the "
             "block must reach the same barrier: move it out of the condition",
             text(place).c_str(), name(fiber).c_str(), name(threads_of(fiber.rank)[at.first]).c_str(),
             text(at.place).c_str());
    if (!at.waiting) {
        at.place = place;
        at.first = fiber.thread;
    }
    wait("__syncthreads()", place);
    if (++at.waiting == at.live) block_barrier_opens(at, fiber.rank);
    leave();
}

enum class Warp { Sync, Shuffle, Ballot, Add, Max, Min };

EXPORT uint64_t warp(Warp operation, unsigned mask, uint64_t value, int from, const char* what, Place place) {
    Fiber& fiber = *now.fiber;
    if (!(mask >> fiber.thread % 32 & 1))
        fail("%s: shuffle mask: %s is lane %u and calls %s with mask 0x%08x, which does not name it; the mask must name every lane "
             "that calls, 0xffffffff for the whole warp",
             text(place).c_str(), name(fiber).c_str(), fiber.thread % 32, what, mask);
    wait(what, place);
    fiber.operation = int(operation);
    fiber.mask = mask;
    fiber.value = value;
    fiber.from = from;
    meet(fiber);
    leave();
    return fiber.value;
}

EXPORT void atomic(void* p, unsigned bytes, Place place) {
    Fiber& fiber = *now.fiber;
    if ((now.slice -= FOREVER / 256) <= 0) preempt(site(place));
    if (reinterpret_cast<uintptr_t>(p) % bytes)
        fail("%s: misaligned: %s: an atomic operation of %u bytes", text(place).c_str(), name(fiber).c_str(), bytes);
    atomic_order(fiber, p);
    access(fiber, p, bytes, true, true, site(place));
}

EXPORT void load(void* value, const void* p, unsigned bytes) { memcpy(value, p, bytes); }
EXPORT void store(void* p, const void* value, unsigned bytes) { memcpy(p, value, bytes); }

EXPORT long long ticks(Place place) {
    preempt(site(place));
    return clock_ticks += 1000;
}

EXPORT void trap(const char* what, Place place) {
    fail("%s: trap: %s: %s", text(place).c_str(), name(*now.fiber).c_str(), what);
    __builtin_unreachable();
}

EXPORT void barrier_init(void* p, int arrivals, Place place) {
    Fiber& fiber = *now.fiber;
    if (arrivals < 1)
        fail("%s: mbarrier: %s calls barrier_init() for %d arrivals", text(place).c_str(), name(fiber).c_str(), arrivals);
    access(fiber, p, 8, true, false, site(place));
    Barrier& barrier = barriers[p] = Barrier();
    barrier.expected = barrier.pending = arrivals;
    barrier.component = fiber.component;
    barrier.clock = fiber.clock;
}

EXPORT void async_fence() { proxy_fence(*now.fiber); }

EXPORT void barrier_arrive(void* p, int bytes, const char* what, Place place) {
    Fiber& fiber = *now.fiber;
    Barrier& barrier = barrier_at(p, false, what, place);
    if (!barrier.pending)
        fail("%s: mbarrier: %s calls %s, but all %d arrivals of this phase have come; barrier_init() must be told how many "
             "arrive in a phase",
             text(place).c_str(), name(fiber).c_str(), what, barrier.expected);
    release(fiber, barrier.arriving);
    barrier.bytes += bytes;
    --barrier.pending;
    end_phase_if_complete(barrier);
}

EXPORT void barrier_wait(void* p, unsigned parity, const char* what, Place place) {
    Fiber& fiber = *now.fiber;
    Barrier& barrier = barrier_at(p, false, what, place);
    if (barrier.phase % 2 != parity) {  // the phase of that parity has ended
        acquire(fiber, barrier.released);
        return;
    }
    wait(what, place);
    barrier.waiting.push_back(&fiber);
    leave();
}

EXPORT void bulk_load(void* to, const void* from, int bytes, void* p, Place place) {
    const char* what = "bulk_load()";
    Fiber& fiber = *now.fiber;
    require_vectors("a bulk copy", to, from, bytes, place);
    Barrier& barrier = barrier_at(p, true, what, place);
    Copy copy = new_copy(place);
    copy.bulk = true;
    copy.to = in_block(to, int(fiber.rank), what, place);
    copy.from = static_cast<const char*>(from);
    copy.bytes = unsigned(bytes);
    copy.barrier = &barrier;
    copy.target = fiber.rank;
    copies.push_back(std::move(copy));
}

EXPORT void prefetch(const void* from, int bytes, Place place) {
    require_vectors("a prefetch", from, from, bytes, place);
    require_inside(*now.fiber, from, unsigned(bytes), site(place));
}

EXPORT void remote_store(void* to, uint64_t value, int bytes, void* p, int rank, Place place) {
    const char* what = "remote_store()";
    char* there = in_block(p, rank, what, place);
    Barrier& barrier = barrier_at(there, true, what, place);
    Copy copy = new_copy(place);
    copy.to = in_block(to, rank, what, place);
    copy.from = nullptr;
    copy.value = value;
    copy.bytes = unsigned(bytes);
    copy.barrier = &barrier;
    copy.target = unsigned(rank);
    copies.push_back(std::move(copy));
}

EXPORT int cluster_rank() { return int(now.fiber->rank); }

EXPORT void cluster_arrive(Place place) {
    Fiber& fiber = *now.fiber;
    if (fiber.arrivals++ != fiber.waits)
        fail("%s: cluster barrier: %s calls cluster_arrive() twice without cluster_wait() in between", text(place).c_str(),
             name(fiber).c_str());
    release(fiber, cluster_arriving);
    ++cluster_arrived;
    cluster_barrier_opens_if_all_arrived();
}

EXPORT void cluster_wait(Place place) {
    Fiber& fiber = *now.fiber;
    if (++fiber.waits != fiber.arrivals)
        fail("%s: cluster barrier: %s calls cluster_wait() without cluster_arrive() before it", text(place).c_str(),
             name(fiber).c_str());
    if (cluster_phase >= fiber.arrivals) {
        acquire(fiber, cluster_released);
        return;
    }
    wait(CLUSTER_WAIT, place);
    leave();
}

// --- what Python calls -----------------------------------------------------------------------------------------------

// Runs a kernel; 0, or 1 with a finding in launch.message.
extern "C" EXPORT int host_launch(Launch* launch, void (*kernel)(void**), void** kernel_arguments) {
    static std::mutex one_at_a_time;
    std::lock_guard<std::mutex> lock(one_at_a_time);
    now.launch = launch;
    now.failed = false;
    now.fiber = nullptr;
    entry = kernel;
    arguments = kernel_arguments;
    find_module(reinterpret_cast<const void*>(kernel));
    random_state = launch->seed * 2654435761u | 1;
    longest_slice = launch->seed ? 4 << 2 * random(5) : FOREVER;  // up to 4, 16, 64, 256 or 1024 accesses
    deadline = std::chrono::steady_clock::now() +
               std::chrono::microseconds(static_cast<long long>(1e6 * launch->seconds));
    clock_ticks = 0;

    const unsigned *block = launch->block, *grid = launch->grid;
    now.threads = block[0] * block[1] * block[2];
    blockDim = {block[0], block[1], block[2]};
    gridDim = {grid[0], grid[1], grid[2]};
    unsigned clusters = grid[0] * grid[1] * grid[2] / launch->cluster;
    now.order.resize(clusters);
    for (unsigned i = 0; i < clusters; ++i) now.order[i] = i;
    if (launch->seed)
        for (unsigned i = clusters; i > 1; --i) std::swap(now.order[i - 1], now.order[random(i)]);

    now.fibers.resize(size_t(now.threads) * launch->cluster);
    reserve_stacks(now.fibers.size() * STACK);
    if (!now.stacks) {
        snprintf(launch->message, sizeof launch->message, "there is no memory for the stacks of the threads");
        return 1;
    }
    now.blocks.resize(launch->cluster);
    for (Block& at : now.blocks) {
        at.memory.resize(launch->shared + 2 * MARGIN + 128);
        at.shared = at.memory.data() + MARGIN;
        at.shared += (128 - reinterpret_cast<uintptr_t>(at.shared) % 128) % 128;
    }
    begin_launch();
    for (unsigned cluster : now.order) {
        run_cluster(cluster);
        if (now.failed) break;
        ++now.serial;
    }
    end_launch();
    return now.failed;
}

}  // namespace host
