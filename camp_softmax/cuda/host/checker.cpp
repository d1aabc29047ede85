// Knows what happened before what, and finds two accesses to the same memory that nothing orders.
//
// Each word of memory has a cell of shadow memory: who wrote it last and who read it, each with the time on that thread's
// own clock. An access is ordered after an earlier one if the thread has since learned of that time, directly or by way
// of others: its vector clock says so. Barriers, __syncwarp(), mbarriers and atomic operations pass vector clocks on;
// shuffles and votes do not, as they order no memory on the GPU. So a race is found whatever the order was in which
// things happened to run. (FastTrack: Flanagan and Freund, "Efficient and precise dynamic race detection", 2009.)
//
// Kernels are compiled with -fsanitize=thread,alignment,bounds. That makes the compiler call the functions at the end of
// this file; the libraries of those sanitizers are not linked.
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unordered_map>

#include "engine.hpp"

namespace host {

// --- vector clocks -----------------------------------------------------------------------------------------------

namespace {
size_t components;
std::vector<void*> unused;  // arrays for that many
}  // namespace

void VectorClock::components(size_t n) {
    if (n == host::components) return;
    for (void* array : unused) free(array);
    unused.clear();
    host::components = n;
}

VectorClock::Array* VectorClock::allocate() {
    Array* array;
    if (unused.empty()) {
        array = static_cast<Array*>(malloc(sizeof(Array) + host::components * sizeof(uint32_t)));
    } else {
        array = static_cast<Array*>(unused.back());
        unused.pop_back();
    }
    array->references = 1;
    return array;
}

void VectorClock::release() {
    if (array && !--array->references) unused.push_back(array);
    array = nullptr;
}

void VectorClock::own() {
    if (array && array->references == 1) return;
    Array* copy = allocate();
    if (array)
        memcpy(copy->time, array->time, host::components * sizeof(uint32_t));
    else
        memset(copy->time, 0, host::components * sizeof(uint32_t));
    release();
    array = copy;
}

void VectorClock::set(size_t component, uint32_t time) {
    if ((*this)[component] >= time) return;
    own();
    array->time[component] = time;
}

void VectorClock::join(const VectorClock& other) {
    if (!other.array || same(other)) return;
    bool more = false, less = !array;
    for (size_t i = 0; array && i < host::components; ++i) {
        more |= array->time[i] > other.array->time[i];
        less |= array->time[i] < other.array->time[i];
    }
    if (!less) return;
    if (!more) {
        *this = other;
        return;
    }
    own();
    for (size_t i = 0; i < host::components; ++i) array->time[i] = std::max(array->time[i], other.array->time[i]);
}

namespace {

// Component 0 stands for the clusters that ran earlier in this launch: its time is the serial number of the last one
// that this thread has heard of, which only an atomic operation can bring.
constexpr size_t EARLIER = 0;

// --- shadow memory -----------------------------------------------------------------------------------------------

// An access. `mask` has a bit for each byte of the word.
struct Event {
    uint32_t serial, clock, site;
    uint16_t component;
    uint8_t mask;
    bool atomic;
};

// Of the reads since the last write, the last two by different threads and one by another warp are kept: a write races
// with all of them or, nearly always, with one that is kept.
struct Cell {  // a line of the cache
    Event write, read[3];
};
static_assert(sizeof(Cell) == 64, "");

// Which bytes of a word of shared memory have been written, and by which cluster.
struct Written {
    uint32_t serial, mask;
};

struct Shadow {
    Cell* cell = nullptr;
    size_t cells = 0;

    void reserve(size_t n) {
        if (n <= cells) return;
        drop();
        void* got = mmap(nullptr, n * sizeof(Cell), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                         -1, 0);
        if (got == MAP_FAILED) abort();
        cell = static_cast<Cell*>(got);
        cells = n;
    }
    void drop() {
        if (cell) munmap(cell, cells * sizeof(Cell));
        cell = nullptr;
        cells = 0;
    }
};

constexpr size_t KEPT = 64 << 20;  // bytes of a shadow that stay for the next launch

struct Synchronized {  // what is known to whoever touches this place by an atomic operation
    VectorClock known;
    uint32_t serial = 0, earlier = 0;
};

struct Joined {
    VectorClock a, b, result;
};

std::vector<Shadow> of_block, of_buffer;
std::vector<std::vector<Written>> written_of_block;
std::unordered_map<const void*, Synchronized> in_shared, in_global;
std::vector<uint32_t> fences;  // for each component, the time of its last proxy fence
Joined joined[256];            // threads often come with the same two clocks
std::vector<Place> places;
std::unordered_map<uintptr_t, uint32_t> numbers;

size_t stride() { return now.threads + COPIES; }

bool ordered(const Event& event, const Actor& actor) {
    if (event.serial != now.serial) return event.serial <= actor.known[EARLIER];
    return event.component == actor.component || event.clock <= actor.known[event.component];
}

// A bulk copy does not wait for ordinary accesses that are still on their way, unless the thread has made it.
bool on_its_way(const Event& event, const Actor& actor) {
    return actor.bulk && event.serial == now.serial && !is_copy(event.component) &&
           !fenced(event.component, event.clock);
}

struct Memory {  // a variable or an argument
    const char* name;
    uintptr_t begin;
    size_t bytes;
    int element;  // bytes; 0: not known
    bool shared;
};

// The place that a message speaks of, such as "scratch[3] in shared memory".
std::string described(const Memory& memory, uintptr_t address) {
    long offset = long(address - memory.begin);
    const char* where = memory.shared ? " in shared memory" : "";
    if (!memory.element) return "byte " + std::to_string(offset) + " of " + memory.name + where;
    long element = offset >= 0 ? offset / memory.element : -((memory.element - 1 - offset) / memory.element);
    return memory.name + ("[" + std::to_string(element) + "]") + where;
}

std::string who(const Event& event) {
    Actor actor;
    actor.component = event.component;
    actor.rank = unsigned((event.component - 1) / stride());
    actor.thread = unsigned((event.component - 1) % stride());
    unsigned cluster = now.order[event.serial - now.first_serial];
    if (actor.thread >= now.threads) return "a copy into " + block_name(cluster, actor.rank);
    if (event.serial == now.serial) return name(actor);
    return "a thread of " + block_name(cluster, actor.rank);
}

// Why two accesses clash, as a finding.
void race(const Event& before, bool wrote, const Actor& actor, const Event& event, bool writes, const Memory& memory,
          uintptr_t address) {
    unsigned rank = unsigned((before.component - 1) / stride()), thread = unsigned((before.component - 1) % stride());
    std::string here = text(event.site), there = text(before.site), place = described(memory, address);
    if (ordered(before, actor))
        return fail("%s: race: %s overwrites %s while loads by %s at %s may still be on their way; call "
                    "reads_before_bulk_load() between those loads and the barrier_arrive() that follows",
                    here.c_str(), name(actor).c_str(), place.c_str(), who(before).c_str(), there.c_str());
    const char* advice = "put a __syncthreads() between the two";
    if (before.serial != now.serial)
        advice = "blocks run in any order: let one of them alone touch it, or use an atomic operation";
    else if (is_copy(actor.component) || is_copy(before.component))
        advice = "wait for the copy's mbarrier before the data is used, and tell its loader before it is overwritten";
    else if (rank != actor.rank)
        advice = "wait for the cluster's barrier in between";
    else if (writes && wrote && here == there)
        advice = "let one thread alone write it, or use an atomic operation";
    else if (thread / 32 == actor.thread / 32)
        advice = "put a __syncthreads() between the two, or a __syncwarp() if one warp alone uses it";
    fail("%s: race: %s %s %s here, and %s %s it at %s, with nothing that orders the two; %s", here.c_str(),
         name(actor).c_str(), writes ? "writes" : "reads", place.c_str(), who(before).c_str(),
         wrote ? "wrote" : "read", there.c_str(), advice);
}

// Compares an access to a word with what its cell holds, and puts it there. Events before `first` do not count.
inline const Event* clash(Cell& cell, const Event& event, const Actor& actor, bool write, uint32_t first) {
    auto clashes = [&](const Event& before) {
        return before.serial >= first && before.mask & event.mask && !(before.atomic && event.atomic) &&
               (!ordered(before, actor) || on_its_way(before, actor));
    };
    if (clashes(cell.write)) return &cell.write;
    if (write) {
        for (const Event& before : cell.read)
            if (clashes(before)) return &before;
        cell.write = event;
        return nullptr;
    }
    Event& last = cell.read[0];
    if (last.component != event.component) {
        if (last.component / 32 != event.component / 32) cell.read[2] = last;
        cell.read[1] = last;
    }
    last = event;
    return nullptr;
}

// `written` is null for global memory.
bool access_words(Cell* cell, Written* written, const Memory& memory, uintptr_t address, unsigned bytes,
                  const Actor& actor, bool write, bool atomic, uint32_t site) {
    uint32_t first = memory.shared ? now.serial : now.first_serial;
    for (uintptr_t at = address; at < address + bytes; ++cell) {
        unsigned in_word = at % 4, n = std::min(4 - in_word, unsigned(address + bytes - at));
        Event event{now.serial, actor.clock, site, uint16_t(actor.component), uint8_t(((1u << n) - 1) << in_word), atomic};
        if (written) {
            if (written->serial != now.serial) *written = {now.serial, 0};
            if (write) {
                written->mask |= event.mask;
            } else if (event.mask & ~written->mask) {
                fail("%s: uninitialised: %s reads %s, which nobody has written yet; write it first, with a "
                     "__syncthreads() in between if another thread does: shared memory starts as the last block left it",
                     text(site).c_str(), name(actor).c_str(), described(memory, at).c_str());
                return false;
            }
            ++written;
        }
        if (const Event* before = clash(*cell, event, actor, write, first)) {
            race(*before, before == &cell->write, actor, event, write, memory, at);
            return false;
        }
        at += n;
    }
    return true;
}

__attribute__((noinline)) bool out_of_bounds(const Actor& actor, uintptr_t address, unsigned bytes, bool write,
                                             uint32_t site, const Memory* nearest) {
    std::string place = "an address that belongs to no argument of the kernel", of;
    if (nearest) {
        place = described(*nearest, address);
        size_t size = size_t(std::max(nearest->element, 1));
        of = std::string(", and ") + nearest->name + " has " + std::to_string(nearest->bytes / size) +
             (nearest->element ? " elements" : " bytes");
    }
    fail("%s: out of bounds: %s %s %u bytes at %s%s; guard the access with a condition such as if (j < M)",
         text(site).c_str(), name(actor).c_str(), write ? "writes" : "reads", bytes, place.c_str(), of.c_str());
    return false;
}

__attribute__((noinline)) bool outside_shared(const Actor& actor, unsigned rank, uintptr_t address, unsigned bytes,
                                              bool write, uint32_t site) {
    const Launch& launch = *now.launch;
    uintptr_t begin = reinterpret_cast<uintptr_t>(now.blocks[rank].shared);
    const Variable* nearest = launch.variable;
    for (int i = 0; i < launch.variables; ++i)
        if (begin + launch.variable[i].offset <= address) nearest = launch.variable + i;
    Memory memory{nearest->name, begin + nearest->offset, nearest->bytes, nearest->element, true};
    return out_of_bounds(actor, address, bytes, write, site, &memory);
}

__attribute__((noinline)) bool outside_global(const Actor& actor, uintptr_t address, unsigned bytes, bool write,
                                              uint32_t site) {
    const Launch& launch = *now.launch;
    Memory nearest{};
    size_t distance = size_t(1) << 30;
    for (int i = 0; i < launch.buffers; ++i) {
        const Buffer& buffer = launch.buffer[i];
        uintptr_t begin = reinterpret_cast<uintptr_t>(buffer.begin), end = begin + buffer.bytes;
        size_t away = address < begin ? begin - address : address < end ? 0 : address - end;
        if (away < distance) {
            distance = away;
            nearest = Memory{buffer.name, begin, buffer.bytes, buffer.element, false};
        }
    }
    if (address - reinterpret_cast<uintptr_t>(now.module) < now.module_bytes) return true;  // its constants
    if (!write && is_index(reinterpret_cast<void*>(address))) return true;
    if (address - reinterpret_cast<uintptr_t>(now.stacks) < now.stacks_bytes) {
        fail("%s: out of bounds: %s %s a local variable of another thread; threads share memory by __shared__ variables "
             "and by the kernel's pointers (or, with much in local arrays: its own %zu KB for them are full)",
             text(site).c_str(), name(actor).c_str(), write ? "writes to" : "reads", STACK >> 10);
        return false;
    }
    return out_of_bounds(actor, address, bytes, write, site, nearest.name ? &nearest : nullptr);
}

}  // namespace

bool access(Actor& actor, const void* p, unsigned bytes, bool write, bool atomic, uint32_t site) {
    const Launch& launch = *now.launch;
    uintptr_t address = reinterpret_cast<uintptr_t>(p);
    for (unsigned i = 0; i < launch.cluster; ++i) {
        unsigned rank = i ? (actor.rank + i) % launch.cluster : actor.rank;  // mostly its own
        uintptr_t begin = reinterpret_cast<uintptr_t>(now.blocks[rank].shared);
        if (address - begin + MARGIN >= launch.shared + 2 * MARGIN) continue;
        for (int v = 0; v < launch.variables; ++v) {
            const Variable& variable = launch.variable[v];
            size_t offset = address - begin - variable.offset;
            if (offset >= variable.bytes || offset + bytes > variable.bytes) continue;
            Memory memory{variable.name, begin + variable.offset, variable.bytes, variable.element, true};
            size_t word = address / 4 - begin / 4;
            return access_words(of_block[rank].cell + word, &written_of_block[rank][word], memory, address, bytes, actor,
                                write, atomic, site);
        }
        if (launch.variables) return outside_shared(actor, rank, address, bytes, write, site);
    }
    const Buffer* constant = nullptr;
    for (int i = 0; i < launch.buffers; ++i) {
        const Buffer& buffer = launch.buffer[i];
        uintptr_t begin = reinterpret_cast<uintptr_t>(buffer.begin);
        if (address - begin >= buffer.bytes || address - begin + bytes > buffer.bytes) continue;
        if (!buffer.writable) {
            constant = &buffer;  // unless the same memory is another argument, too
            continue;
        }
        Memory memory{buffer.name, begin, buffer.bytes, buffer.element, false};
        return access_words(of_buffer[size_t(i)].cell + (address / 4 - begin / 4), nullptr, memory, address, bytes, actor,
                            write, atomic, site);
    }
    if (!constant) return outside_global(actor, address, bytes, write, site);
    if (!write) return true;
    fail("%s: const: %s writes to %s, which the kernel takes as pointer to const", text(site).c_str(),
         name(actor).c_str(), constant->name);
    return false;
}

void require_inside(const Actor& actor, const void* p, unsigned bytes, uint32_t site) {
    uintptr_t address = reinterpret_cast<uintptr_t>(p);
    for (int i = 0; i < now.launch->buffers; ++i) {
        const Buffer& buffer = now.launch->buffer[i];
        size_t offset = address - reinterpret_cast<uintptr_t>(buffer.begin);
        if (offset < buffer.bytes && offset + bytes <= buffer.bytes) return;
    }
    outside_global(actor, address, bytes, false, site);
}

// --- what orders -------------------------------------------------------------------------------------------------

void release(Actor& actor, VectorClock& to) {
    to.join(actor.known);
    to.set(actor.component, actor.clock);
    ++actor.clock;
}

void acquire(Actor& actor, const VectorClock& released) {
    if (released.same(actor.known)) return;
    Joined& entry = joined[(actor.known.hash() * 31 + released.hash()) % (sizeof joined / sizeof *joined)];
    if (!entry.a.same(actor.known) || !entry.b.same(released)) {
        entry.a = entry.result = actor.known;
        entry.b = released;
        entry.result.join(released);
    }
    actor.known = entry.result;
}

void synchronize(Fiber** fibers, size_t n) {
    VectorClock all;
    for (size_t i = 0; i < n; ++i)
        if (!i || !fibers[i]->known.same(fibers[i - 1]->known)) all.join(fibers[i]->known);
    for (size_t i = 0; i < n; ++i) all.set(fibers[i]->component, fibers[i]->clock++);
    for (size_t i = 0; i < n; ++i) fibers[i]->known = all;
}

void atomic_order(Actor& actor, const void* p) {
    bool shared = false;
    for (const Block& block : now.blocks)
        shared |= size_t(static_cast<const char*>(p) - block.shared) < now.launch->shared;
    Synchronized& place = (shared ? in_shared : in_global)[p];
    if (place.serial != now.serial) {
        place.earlier = place.serial;
        place.serial = now.serial;
        place.known = VectorClock();
    }
    actor.known.join(place.known);
    actor.known.set(EARLIER, place.earlier);
    release(actor, place.known);
}

void proxy_fence(Actor& actor) { fences[actor.component] = actor.clock++; }
bool fenced(uint32_t component, uint32_t clock) { return clock <= fences[component]; }

void begin_launch() {
    const Launch& launch = *now.launch;
    now.first_serial = ++now.serial;
    for (Joined& entry : joined) entry = Joined();
    in_global.clear();
    in_shared.clear();
    VectorClock::components(1 + launch.cluster * stride());
    of_block.resize(std::max<size_t>(of_block.size(), launch.cluster));
    written_of_block.resize(of_block.size());
    for (unsigned rank = 0; rank < launch.cluster; ++rank) {
        of_block[rank].reserve(launch.shared / 4 + 1);
        written_of_block[rank].resize(std::max(written_of_block[rank].size(), launch.shared / 4 + 1));
    }
    of_buffer.resize(std::max<size_t>(of_buffer.size(), size_t(launch.buffers)));
    for (int i = 0; i < launch.buffers; ++i)
        if (launch.buffer[i].writable) of_buffer[size_t(i)].reserve(launch.buffer[i].bytes / 4 + 2);
}

void begin_cluster() {
    for (Joined& entry : joined) entry = Joined();
    in_shared.clear();
    fences.assign(1 + now.launch->cluster * stride(), 0);
}

void end_launch() {
    for (Joined& entry : joined) entry = Joined();
    in_global.clear();
    in_shared.clear();
    for (Shadow& shadow : of_buffer)
        if (shadow.cells * sizeof(Cell) > KEPT) shadow.drop();
}

// --- places ------------------------------------------------------------------------------------------------------

constexpr uint32_t NUMBER = 0x80000000;

uint32_t site(Place place) {
    uintptr_t key = reinterpret_cast<uintptr_t>(place.file) << 20 ^ uintptr_t(place.line);
    auto [found, fresh] = numbers.try_emplace(key, uint32_t(places.size()));
    if (fresh) places.push_back(place);
    return found->second | NUMBER;
}

std::string text(uint32_t site) {
    char buffer[32];
    if (site & NUMBER) {
        const Place& place = places[site & ~NUMBER];
        return "@{" + std::string(place.file) + ":" + std::to_string(place.line) + "}";
    }
    snprintf(buffer, sizeof buffer, "@{%x}", site);
    return buffer;
}

// --- what the compiler calls -------------------------------------------------------------------------------------

namespace {

void touch(void* p, size_t bytes, bool write, void* from) {
    Fiber* fiber = now.fiber;
    if (!fiber || size_t(static_cast<char*>(p) - fiber->stack) < STACK) return;  // a local variable
    uint32_t site = uint32_t(static_cast<char*>(from) - now.module - 1);
    if (--now.slice <= 0) preempt(site);
    access(*fiber, p, unsigned(bytes), write, false, site);
}

struct Source {
    const char* file;
    uint32_t line, column;
};

void undefined(const Source* source, const char* rule, const char* what) {
    fail("%s: %s: %s %s", text(Place{source->file, int(source->line)}).c_str(), rule, name(*now.fiber).c_str(), what);
}

}  // namespace
}  // namespace host

#define FROM __builtin_return_address(0)
#define HOOK(N)                                                                          \
    EXPORT void __tsan_read##N(void* p) { host::touch(p, N, false, FROM); }             \
    EXPORT void __tsan_write##N(void* p) { host::touch(p, N, true, FROM); }             \
    EXPORT void __tsan_read_write##N(void* p) { host::touch(p, N, true, FROM); }        \
    EXPORT void __tsan_unaligned_read##N(void* p) { host::touch(p, N, false, FROM); }   \
    EXPORT void __tsan_unaligned_write##N(void* p) { host::touch(p, N, true, FROM); }   \
    EXPORT void __tsan_unaligned_read_write##N(void* p) { host::touch(p, N, true, FROM); }

extern "C" {
HOOK(1)
HOOK(2)
HOOK(4)
HOOK(8)
HOOK(16)
EXPORT void __tsan_read_range(void* p, size_t bytes) { host::touch(p, bytes, false, FROM); }
EXPORT void __tsan_write_range(void* p, size_t bytes) { host::touch(p, bytes, true, FROM); }
EXPORT void* __tsan_memcpy(void* to, void* from, size_t bytes) {
    host::touch(from, bytes, false, FROM);
    host::touch(to, bytes, true, FROM);
    return memcpy(to, from, bytes);
}
EXPORT void* __tsan_memmove(void* to, void* from, size_t bytes) {
    host::touch(from, bytes, false, FROM);
    host::touch(to, bytes, true, FROM);
    return memmove(to, from, bytes);
}
EXPORT void* __tsan_memset(void* to, int value, size_t bytes) {
    host::touch(to, bytes, true, FROM);
    return memset(to, value, bytes);
}
EXPORT void __tsan_init() {}
EXPORT void __tsan_func_entry(void*) {}
EXPORT void __tsan_func_exit() {}

EXPORT void __ubsan_handle_type_mismatch_v1(host::Source* source, uintptr_t) {
    host::undefined(source, "misaligned", "loads or stores a vector at an address that is no multiple of its size; start "
                                          "at one that is, or go element by element");
}
EXPORT void __ubsan_handle_out_of_bounds(host::Source* source, uintptr_t) {
    host::undefined(source, "out of bounds", "uses an index that the array does not have; guard the access with a "
                                             "condition, or make the array larger");
}
}
