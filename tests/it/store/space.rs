//! How much room there is where mail is kept.

use super::objects::with_blobs;
use super::scene::{Kind, Scene};

on_both! {
    the_room_is_that_of_the_folders_of_this_machine,
}

async fn the_room_is_that_of_the_folders_of_this_machine(kind: Kind) {
    let scene = Scene::new(kind).await;
    let free = scene.store.free_space().await.unwrap();
    assert_eq!(free.is_some(), kind == Kind::Sqlite, "{free:?}");
    // More than nothing: the database has just been written.
    assert!(free.is_none_or(|free| free > 0));
    let blobs = with_blobs(&scene).await;
    assert!(blobs.free_space().await.unwrap().is_some_and(|free| free > 0));
}
