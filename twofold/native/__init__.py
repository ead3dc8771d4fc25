"""TD3's update in C: `engine.c`, built when the package is installed where there is a compiler."""
