// a pending timer does not keep the script alive; those that are left are counted
setTimeout(() => text("never"), 0);
setTimeout(() => text("never"), 1000);
clearTimeout(setTimeout(() => text("never"), 1000));
text("end");
