"""A backend of torch.distributed that behaves as NCCL does where a rank is gone: it never raises, and never returns.

It is gloo with a limit of a day, whose errors end nowhere. Ranks of a test get it in gloo's place by `SITECUSTOMIZE`.
With HOLDS_LOCK in the environment a rank waits with the interpreter's lock held, so that no thread of it runs.
"""

SITECUSTOMIZE = """
import ctypes, os, sys
from datetime import timedelta
import torch
import torch.distributed as dist

LOCKED = bool(os.environ.get("HOLDS_LOCK"))
LIBC = ctypes.PyDLL(None) if LOCKED else ctypes.CDLL(None)
if LOCKED:
    sys.setswitchinterval(1e6)

class Work(dist._Work):
    def __init__(self, inner):
        super().__init__()
        self.inner, self.future = inner, inner.get_future()
        if not LOCKED:  # else gloo's threads would wait for the lock
            self.future = torch.futures.Future()
            inner.get_future().add_done_callback(self.pass_on)

    def pass_on(self, future):
        try:
            self.future.set_result(future.value())
        except Exception:
            pass

    def wait(self, timeout=None):
        while not self.right():
            LIBC.usleep(2000)
        return True

    def right(self):
        future = self.inner.get_future()
        try:
            return future.done() and future.value() is not future
        except Exception:
            return False

    def get_future(self):
        return self.future

class Blocking(dist.ProcessGroup):
    def __init__(self, store, rank, size, timeout):
        super().__init__(rank, size)
        self.inner = dist.ProcessGroupGloo(store, rank, size, timedelta(days=1))

    def getBackendName(self):
        return "blocking"

def passed(name):
    return lambda self, *arguments, **options: Work(getattr(self.inner, name)(*arguments, **options))

for name in ("allreduce", "broadcast", "allgather", "barrier", "send", "recv"):
    setattr(Blocking, name, passed(name))

dist.Backend.register_backend("blocking", Blocking, devices=["cpu"])
join = dist.init_process_group
dist.init_process_group = lambda backend, **options: join("blocking", **options)
"""
