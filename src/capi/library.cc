// liblockstep.so has no code of its own: it joins the libraries of the core (CMakeLists.txt).
