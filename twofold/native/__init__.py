"""TD3's update (`engine.c`), recurrent networks and QMIX's mixer (`recurrent.c`)."""
