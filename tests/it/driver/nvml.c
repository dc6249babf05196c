/* A mock NVIDIA driver library (NVML), with the functions that hpsearch calls. What it tells stands in the file that MOCK_DRIVER
 * names, read at every call, a fact a line:
 *
 *     init CODE | driver VERSION | cuda NUMBER
 *     gpu UUID;NAME;MAJOR;MINOR;TOTAL;USED;UTILISATION;CELSIUS;MILLIWATTS;LIMIT;MODE;MIG;CODE
 *     part GPU UUID
 *
 * A process is on a GPU, with so many bytes, while it lives and the file MOCK_DRIVER.GPU.PID holds their number. */
#include <dirent.h>
#include <libgen.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, UNKNOWN = 999, MOST = 8, PART = 1000 };

typedef struct { char uuid[96], name[96]; unsigned major, minor; unsigned long long total, used; unsigned busy, heat, power, limit, mode, mig, code; } Gpu;
typedef struct { unsigned gpu; char uuid[96]; } Part;
typedef struct { unsigned pid; unsigned long long memory; unsigned instance, compute; } Process;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } Memory;
typedef void *Device;

static struct { int init; char driver[80]; int cuda; unsigned gpus, parts; Gpu gpu[MOST]; Part part[MOST]; } facts;

static int look(void) {
    char line[512];
    const char *path = getenv("MOCK_DRIVER");
    FILE *file = path ? fopen(path, "r") : NULL;
    if (!file) return 9;
    memset(&facts, 0, sizeof facts);
    while (fgets(line, sizeof line, file)) {
        Gpu *gpu = &facts.gpu[facts.gpus];
        Part *part = &facts.part[facts.parts];
        if (sscanf(line, "init %d", &facts.init) == 1 || sscanf(line, "driver %79s", facts.driver) == 1 || sscanf(line, "cuda %d", &facts.cuda) == 1) continue;
        if (facts.parts < MOST && sscanf(line, "part %u %95s", &part->gpu, part->uuid) == 2) facts.parts++;
        if (facts.gpus < MOST && sscanf(line, "gpu %95[^;];%95[^;];%u;%u;%llu;%llu;%u;%u;%u;%u;%u;%u;%u", gpu->uuid, gpu->name, &gpu->major, &gpu->minor,
                &gpu->total, &gpu->used, &gpu->busy, &gpu->heat, &gpu->power, &gpu->limit, &gpu->mode, &gpu->mig, &gpu->code) == 13) facts.gpus++;
    }
    fclose(file);
    return facts.init;
}

/* The GPU of a handle, NULL for parts and for those that do not answer. */
static int of(Device device, Gpu **gpu) {
    uintptr_t handle = (uintptr_t)device - 1;
    int code = look();
    if (code) return code;
    if (handle >= facts.gpus) return INVALID_ARGUMENT;
    *gpu = &facts.gpu[handle];
    return (int)(*gpu)->code;
}

static unsigned processes(unsigned gpu, Process *found, unsigned most) {
    char path[512], name[512], prefix[512];
    unsigned count = 0;
    snprintf(path, sizeof path, "%s", getenv("MOCK_DRIVER"));
    snprintf(name, sizeof name, "%s", path);
    snprintf(prefix, sizeof prefix, "%s.%u.", basename(name), gpu);
    DIR *directory = opendir(dirname(path));
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        if (strncmp(entry->d_name, prefix, strlen(prefix))) continue;
        char file_name[1024];
        unsigned pid = (unsigned)atoi(entry->d_name + strlen(prefix));
        snprintf(file_name, sizeof file_name, "%s/%s", path, entry->d_name);
        FILE *file = kill((pid_t)pid, 0) ? NULL : fopen(file_name, "r");
        unsigned long long memory = 0;
        if (file && fscanf(file, "%llu", &memory) == 1) {
            if (count < most) found[count] = (Process){pid, memory, 0, 0};
            count++;
        }
        if (file) fclose(file);
    }
    if (directory) closedir(directory);
    return count;
}

int nvmlInit_v2(void) { return look(); }
int nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(int code) { (void)code; return "mock"; }
int nvmlSystemGetDriverVersion(char *to, unsigned size) { int code = look(); snprintf(to, size, "%s", facts.driver); return code; }
int nvmlSystemGetCudaDriverVersion_v2(int *to) { int code = look(); *to = facts.cuda; return code; }
int nvmlDeviceGetCount_v2(unsigned *to) { int code = look(); *to = facts.gpus; return code; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device *to) { *to = (Device)(uintptr_t)(index + 1); Gpu *gpu; return of(*to, &gpu); }

#define FACT(function, type, expression) int function(Device device, type *to) { Gpu *gpu; int code = of(device, &gpu); if (code) return code; *to = expression; return SUCCESS; }
FACT(nvmlDeviceGetComputeMode, unsigned, gpu->mode)
FACT(nvmlDeviceGetPowerUsage, unsigned, gpu->power)
FACT(nvmlDeviceGetEnforcedPowerLimit, unsigned, gpu->limit)

int nvmlDeviceGetTemperature(Device device, unsigned sensor, unsigned *to) { (void)sensor; Gpu *gpu; int code = of(device, &gpu); if (!code) *to = gpu->heat; return code; }
int nvmlDeviceGetMigMode(Device device, unsigned *now, unsigned *next) { Gpu *gpu; int code = of(device, &gpu); if (!code) *now = *next = gpu->mig; return code; }
int nvmlDeviceGetCudaComputeCapability(Device device, int *major, int *minor) {
    Gpu *gpu; int code = of(device, &gpu);
    if (!code) { *major = (int)gpu->major; *minor = (int)gpu->minor; }
    return code;
}
int nvmlDeviceGetName(Device device, char *to, unsigned size) { Gpu *gpu; int code = of(device, &gpu); if (!code) snprintf(to, size, "%s", gpu->name); return code; }
int nvmlDeviceGetUUID(Device device, char *to, unsigned size) {
    uintptr_t handle = (uintptr_t)device;
    if (handle >= PART && !look()) { snprintf(to, size, "%s", facts.part[handle - PART].uuid); return SUCCESS; }
    Gpu *gpu; int code = of(device, &gpu);
    if (!code) snprintf(to, size, "%s", gpu->uuid);
    return code;
}
int nvmlDeviceGetUtilizationRates(Device device, unsigned *to) { Gpu *gpu; int code = of(device, &gpu); if (!code) to[0] = to[1] = gpu->busy; return code; }

int nvmlDeviceGetMemoryInfo_v2(Device device, Memory *to) {
    Gpu *gpu; int code = of(device, &gpu);
    if (code) return code;
    Process found[64];
    unsigned count = processes((unsigned)((uintptr_t)device - 1), found, 64);
    to->total = gpu->total;
    to->reserved = 0;
    to->used = gpu->used;
    for (unsigned i = 0; i < count && i < 64; i++) to->used += found[i].memory;
    to->free = to->total - to->used;
    return SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(Device device, unsigned *count, Process *to) {
    Gpu *gpu; int code = of(device, &gpu);
    if (code) return code;
    unsigned there = processes((unsigned)((uintptr_t)device - 1), to, *count);
    int fits = there <= *count && (to || !there);
    *count = there;
    return fits ? SUCCESS : INSUFFICIENT_SIZE;
}

int nvmlDeviceGetMaxMigDeviceCount(Device device, unsigned *to) {
    Gpu *gpu; int code = of(device, &gpu);
    if (code) return code;
    *to = 0;
    for (unsigned i = 0; i < facts.parts; i++) *to += facts.part[i].gpu == (uintptr_t)device - 1;
    return SUCCESS;
}

int nvmlDeviceGetMigDeviceHandleByIndex(Device device, unsigned index, Device *to) {
    Gpu *gpu; int code = of(device, &gpu);
    if (code) return code;
    for (unsigned i = 0, seen = 0; i < facts.parts; i++) {
        if (facts.part[i].gpu == (uintptr_t)device - 1 && seen++ == index) { *to = (Device)(uintptr_t)(PART + i); return SUCCESS; }
    }
    return NOT_FOUND;
}
