// A disk that fails: in a program that links this, the library's calls that change the disk end
// here. Nothing waits for a real disk.
#pragma once
#include <stdbool.h>

enum { FAULTY_DISK_KILLED = 77 };

void faulty_disk_fail_at(int call); // that call, and no other, says the disk is full
// The process ends there with status FAULTY_DISK_KILLED. Calls that remove are counted too.
void faulty_disk_kill_at(int call);
bool faulty_disk_heal(void);           // whether it came to that call; from here on nothing fails
void faulty_disk_write_short(bool on); // every write stops half-way
int faulty_disk_cores(void); // the most that a writing thread could run on, since the last call
void faulty_disk_no_links(bool on);    // a file has one name
void faulty_disk_no_exchange(bool on); // two names cannot change places, as on network disks
