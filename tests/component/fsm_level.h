/*
 * Another feature level for a state machine, as no version has it yet.
 */
#ifndef CORVO_TEST_FSM_LEVEL_H
#define CORVO_TEST_FSM_LEVEL_H

#include <stdint.h>

struct fsm;

void test_set_level(struct fsm *f, uint32_t level);

#endif
