/* Stands in for libnvidia-ml.so.1 in tests: the functions of nvml.h that hpcforge calls, with the answers of answers.h,
 * which is made of answers.yaml. It is derived from NVIDIA's documents; no card is behind it. */
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

typedef struct {
    const char *model, *vbios;
    unsigned memory_mib, ecc, ecc_uncorrected, correctable, uncorrectable, pending, failed, nvlinks, active;
    unsigned width, width_max, generation, generation_max, clock_mhz, clock_max_mhz, reasons, temperature_c, mig, instances;
    unsigned slot, power_mw, power_limit_mw, energy_mj, utilization, used_bytes, replays;
    unsigned power_limit_w, power_limit_default_w, fabric_state, fabric_status, fabric_health, fabric_summary;
} Gpu;

#include "answers.h" /* DRIVER, GPUS, INIT, LOST, HANG, CRASH, GARBAGE, METRICS, FABRIC, gpus[] */

enum { NOT_SUPPORTED = 3, NOT_FOUND = 6, GPU_IS_LOST = 15, OTHER_VERSION = 25 };
typedef int Return;
typedef const Gpu *Device;
typedef struct {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char bus_id[32];
} Pci;
typedef struct {
    unsigned long long total, free, used;
} Memory;

static char instance[] = "an instance";

static Return number(unsigned *out, unsigned value) {
    *out = GARBAGE ? 0xdeadbeef : value;
    return 0;
}

static Return text(char *out, unsigned size, const char *value) {
    if (GARBAGE)
        memset(out, 0x9b, size); /* no end, and no character that may be printed */
    else
        snprintf(out, size, "%s", value);
    return 0;
}

static void hang(void) {
    prctl(PR_SET_NAME, "hangs"); /* for whoever waits for it */
    for (;;)
        pause();
}

static unsigned at(Device gpu) { return (unsigned)(gpu - gpus); }

Return nvmlInit_v2(void) {
    if (HANG == -1)
        hang();
    return INIT;
}
Return nvmlSystemGetDriverVersion(char *out, unsigned size) { return text(out, size, DRIVER); }
Return nvmlDeviceGetCount_v2(unsigned *out) {
    *out = GPUS;
    return 0;
}
Return nvmlDeviceGetHandleByIndex_v2(unsigned index, Device *out) {
    if ((int)index == HANG)
        hang();
    if ((int)index == CRASH)
        *(volatile int *)0 = 1;
    *out = &gpus[index];
    return (int)index == LOST ? GPU_IS_LOST : 0;
}
Return nvmlDeviceGetName(Device gpu, char *out, unsigned size) {
    return text(out, size, (const char *)gpu == instance ? "NVIDIA H100 80GB HBM3 MIG 1g.10gb" : gpu->model);
}
Return nvmlDeviceGetSerial(Device gpu, char *out, unsigned size) {
    char serial[30];
    snprintf(serial, sizeof serial, "165232300%04u", at(gpu));
    return text(out, size, serial);
}
Return nvmlDeviceGetUUID(Device gpu, char *out, unsigned size) {
    char uuid[60];
    snprintf(uuid, sizeof uuid, "GPU-00000000-0000-0000-0000-00000000%04u", at(gpu));
    return text(out, size, uuid);
}
Return nvmlDeviceGetVbiosVersion(Device gpu, char *out, unsigned size) { return text(out, size, gpu->vbios); }
Return nvmlDeviceGetPciInfo_v3(Device gpu, Pci *out) {
    memset(out, GARBAGE ? 0xff : 0, sizeof *out);
    if (!GARBAGE)
        out->bus = gpu->slot ? 0 : 0x1b + 0x10 * at(gpu), out->device = gpu->slot;
    return 0;
}
Return nvmlDeviceGetMemoryInfo(Device gpu, Memory *out) {
    memset(out, 0, sizeof *out);
    out->total = GARBAGE ? ~0ull : (unsigned long long)gpu->memory_mib << 20;
    out->used = gpu->used_bytes;
    return 0;
}
Return nvmlDeviceGetEccMode(Device gpu, unsigned *now, unsigned *pending) {
    number(pending, gpu->ecc);
    return number(now, gpu->ecc);
}
Return nvmlDeviceGetTotalEccErrors(Device gpu, int kind, int counter, unsigned long long *out) {
    (void)kind, (void)counter;
    *out = GARBAGE ? ~0ull : gpu->ecc_uncorrected;
    return gpu->ecc ? 0 : NOT_SUPPORTED; /* "Requires ECC Mode to be enabled." */
}
Return nvmlDeviceGetRemappedRows(Device gpu, unsigned *correctable, unsigned *uncorrectable, unsigned *pending,
                                 unsigned *failed) {
    number(correctable, gpu->correctable), number(uncorrectable, gpu->uncorrectable), number(pending, gpu->pending);
    number(failed, gpu->failed);
    return gpu->mig && gpu->instances ? NOT_SUPPORTED : 0; /* "If MIG is enabled" */
}
Return nvmlDeviceGetNvLinkState(Device gpu, unsigned link, unsigned *out) {
    number(out, link < gpu->active);
    return link < gpu->nvlinks ? 0 : NOT_SUPPORTED;
}
/* FABRIC: the newest version of the answer that this driver knows; 0: none; below 0: an error. Past a structure's end
 * nothing is written: the caller's is no longer than its version says. */
typedef struct {
    unsigned char cluster[16];
    unsigned status, clique;
    unsigned char state;
} Fabric;
typedef struct {
    unsigned version;
    Fabric first;
    unsigned health;
} SecondFabric;
typedef struct {
    unsigned version;
    Fabric first;
    unsigned health;
    unsigned char summary;
} ThirdFabric;

#if FABRIC
Return nvmlDeviceGetGpuFabricInfo(Device gpu, Fabric *out) {
    memset(out, GARBAGE ? 0xff : 0, sizeof *out);
    if (!GARBAGE)
        out->status = gpu->fabric_status, out->state = (unsigned char)gpu->fabric_state;
    return FABRIC < 0 ? -FABRIC : 0;
}
#endif
#if FABRIC < 0 || FABRIC > 1
Return nvmlDeviceGetGpuFabricInfoV(Device gpu, ThirdFabric *out) {
    unsigned third = sizeof(ThirdFabric) | 3u << 24, second = sizeof(SecondFabric) | 2u << 24;
    if (out->version != second && (out->version != third || FABRIC == 2))
        return OTHER_VERSION;
    out->health = GARBAGE ? ~0u : gpu->fabric_health;
    if (out->version == third)
        out->summary = (unsigned char)gpu->fabric_summary;
    return nvmlDeviceGetGpuFabricInfo(gpu, &out->first);
}
#endif
Return nvmlDeviceGetCurrPcieLinkWidth(Device gpu, unsigned *out) { return number(out, gpu->width); }
Return nvmlDeviceGetMaxPcieLinkWidth(Device gpu, unsigned *out) { return number(out, gpu->width_max); }
Return nvmlDeviceGetCurrPcieLinkGeneration(Device gpu, unsigned *out) { return number(out, gpu->generation); }
Return nvmlDeviceGetMaxPcieLinkGeneration(Device gpu, unsigned *out) { return number(out, gpu->generation_max); }
Return nvmlDeviceGetClockInfo(Device gpu, int clock, unsigned *out) { return (void)clock, number(out, gpu->clock_mhz); }
Return nvmlDeviceGetMaxClockInfo(Device gpu, int clock, unsigned *out) {
    return (void)clock, number(out, gpu->clock_max_mhz);
}
Return nvmlDeviceGetCurrentClocksEventReasons(Device gpu, unsigned long long *out) {
    *out = GARBAGE ? ~0ull : gpu->reasons;
    return 0;
}
Return nvmlDeviceGetTemperature(Device gpu, int sensor, unsigned *out) {
    return (void)sensor, number(out, gpu->temperature_c);
}
Return nvmlDeviceGetPowerManagementLimit(Device gpu, unsigned *out) { return number(out, 1000 * gpu->power_limit_w); }
Return nvmlDeviceGetPowerManagementDefaultLimit(Device gpu, unsigned *out) {
    return number(out, 1000 * gpu->power_limit_default_w);
}
Return nvmlDeviceGetMigMode(Device gpu, unsigned *now, unsigned *pending) {
    number(pending, gpu->mig);
    return number(now, gpu->mig);
}
Return nvmlDeviceGetMaxMigDeviceCount(Device gpu, unsigned *out) { return number(out, gpu->mig ? 7 : 0); }
Return nvmlDeviceGetMigDeviceHandleByIndex(Device gpu, unsigned index, void **out) {
    *out = instance;
    return index < gpu->instances ? 0 : NOT_FOUND;
}
#if METRICS
Return nvmlDeviceGetPowerUsage(Device gpu, unsigned *out) { return number(out, gpu->power_mw); }
Return nvmlDeviceGetEnforcedPowerLimit(Device gpu, unsigned *out) { return number(out, gpu->power_limit_mw); }
Return nvmlDeviceGetPcieReplayCounter(Device gpu, unsigned *out) { return number(out, gpu->replays); }
Return nvmlDeviceGetTotalEnergyConsumption(Device gpu, unsigned long long *out) {
    *out = gpu->energy_mj;
    return 0;
}
Return nvmlDeviceGetUtilizationRates(Device gpu, unsigned out[2]) {
    number(out + 1, 0);
    return number(out, gpu->utilization);
}
#endif
