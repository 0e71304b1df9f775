whatis("OpenMPI of the distribution; start programs with srun")
family("mpi")
setenv("MPI_HOME", "/usr/lib/x86_64-linux-gnu/openmpi")
